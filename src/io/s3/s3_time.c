#include "io/s3/s3_time.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t seconds_of(int year, int month, int day, int hour, int minute, int second)
{
    bool is_sensible = year >= 1970 && year <= 9999 && month >= 1 && month <= 12 && day >= 1 && day <= 31 && hour >= 0 && hour < 24 &&
                       minute >= 0 && minute < 60 && second >= 0 && second <= 60;
    struct tm t = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day, .tm_hour = hour, .tm_min = minute, .tm_sec = second};
    return is_sensible ? (int64_t)timegm(&t) : -1;
}

int64_t s3_time_iso(const char *s)
{
    int year, month, day, hour, minute, second;
    if (sscanf(s, "%4d-%2d-%2dT%2d:%2d:%2d", &year, &month, &day, &hour, &minute, &second) != 6)
        return -1;
    return seconds_of(year, month, day, hour, minute, second);
}

int64_t s3_time_http(const char *s)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int year, day, hour, minute, second;
    char month[4] = "";
    const char *comma = strchr(s, ',');
    if (!comma || sscanf(comma + 1, " %2d %3s %4d %2d:%2d:%2d", &day, month, &year, &hour, &minute, &second) != 6 || strlen(month) != 3)
        return -1;
    const char *at = strstr(months, month);
    return at && (at - months) % 3 == 0 ? seconds_of(year, (int)(at - months) / 3 + 1, day, hour, minute, second) : -1;
}

void s3_time_stamp(int64_t seconds, char out[S3_STAMP_BYTES])
{
    time_t t = (time_t)seconds;
    struct tm parts = {0};
    gmtime_r(&t, &parts);
    strftime(out, S3_STAMP_BYTES, "%Y%m%dT%H%M%SZ", &parts);
}
