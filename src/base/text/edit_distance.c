#include "base/text/edit_distance.h"

#include <string.h>

enum { MAX_LENGTH = 255 };

static int least(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

int edit_distance_weighted(const char *a, const char *b, struct edit_costs c)
{
    int rows = (int)strnlen(a, MAX_LENGTH), columns = (int)strnlen(b, MAX_LENGTH);
    int cost[MAX_LENGTH + 1]; /* one row of the table, overwritten by the next */
    for (int j = 0; j <= columns; j++)
        cost[j] = j * c.insert;
    for (int i = 1; i <= rows; i++) {
        int diagonal = cost[0];
        cost[0] = i * c.remove;
        for (int j = 1; j <= columns; j++) {
            int above = cost[j];
            cost[j] = least(above + c.remove, cost[j - 1] + c.insert, diagonal + (a[i - 1] == b[j - 1] ? 0 : c.replace));
            diagonal = above;
        }
    }
    return cost[columns];
}

int edit_distance(const char *a, const char *b)
{
    return edit_distance_weighted(a, b, (struct edit_costs){1, 1, 1});
}
