/* The files in which AWS's tools keep settings: ~/.aws/config and ~/.aws/credentials. Sections of "key = value", comments, and settings
 * nested by indentation below a key without a value. */
#ifndef FB_IO_S3_KEYS_S3_PROFILE_H
#define FB_IO_S3_KEYS_S3_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

/* The value of `key` in the section called `section`; nested ones are called "s3.addressing_style". The last one counts. False: none, or
 * too long for `out`. `text` may be any bytes. */
bool s3_profile_find(const char *text, size_t n, const char *section, const char *key, char *out, size_t out_size);

/* The two files of this user: false: there is no place for them. */
bool s3_profile_paths(char *config, char *credentials, size_t size);
/* The profile asked for, "default" if none is; in the config file its section is called "profile NAME". */
const char *s3_profile_name(void);
void s3_profile_config_section(char *out, size_t out_size);

/* A setting of the profile from the config file; for what is not secret. */
bool s3_profile_setting(const char *key, char *out, size_t out_size);

#endif
