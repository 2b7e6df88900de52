/* How many ranks share this machine. */
#ifndef FB_HOST_LOCAL_WORLD_H
#define FB_HOST_LOCAL_WORLD_H

/* LOCAL_WORLD_SIZE as torchrun sets it: a number from 1 to 65536; anything else, or NULL, is 1. */
int host_local_world(const char *text);

#endif
