/* The watchdog: when the consumer has waited for long, it logs the reason. */
#ifndef FB_FEED_ENGINE_WATCHDOG_H
#define FB_FEED_ENGINE_WATCHDOG_H

#include "feed/feed.h"

/* Called about once a second by the helper thread. Logs after FULLBORE_WATCHDOG seconds (default 10) of waiting, then at each doubling. */
void watchdog_check(struct feed *f);

#endif
