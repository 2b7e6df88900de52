#include "io/s3/keys/s3_sha256.h"

#include <string.h>

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotated(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void expand(uint32_t w[64], const uint8_t *block)
{
    for (int i = 0; i < 16; i++)
        w[i] = big_endian(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    expand(w, block);
    for (int i = 0; i < 64; i++) {
        uint32_t t1 = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + (g ^ (e & (f ^ g))) + round_constant[i] + w[i];
        uint32_t t2 = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) | (c & (a | b)));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const uint32_t after[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += after[i];
}

void sha256_start(struct sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->state, start, sizeof(start));
    s->bytes = 0;
}

void sha256_add(struct sha256 *s, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    while (n > 0) {
        size_t held = s->bytes % SHA256_BLOCK, room = SHA256_BLOCK - held, take = n < room ? n : room;
        memcpy(s->block + held, p, take);
        s->bytes += take;
        p += take;
        n -= take;
        if (held + take == SHA256_BLOCK)
            compress(s->state, s->block);
    }
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
    uint64_t bits = 8 * s->bytes;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(s, "\x80", 1);
    while (s->bytes % SHA256_BLOCK != SHA256_BLOCK - sizeof(length))
        sha256_add(s, "", 1);
    sha256_add(s, length, sizeof(length));
    for (int i = 0; i < SHA256_BYTES; i++)
        out[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_hmac(const void *key, size_t key_bytes, const void *message, size_t n, uint8_t out[SHA256_BYTES])
{
    uint8_t pad[SHA256_BLOCK] = {0}, inner[SHA256_BYTES];
    struct sha256 s;
    if (key_bytes > SHA256_BLOCK) {
        sha256_start(&s);
        sha256_add(&s, key, key_bytes);
        sha256_end(&s, pad);
    } else {
        memcpy(pad, key, key_bytes);
    }
    for (int i = 0; i < SHA256_BLOCK; i++)
        pad[i] ^= 0x36;
    sha256_start(&s);
    sha256_add(&s, pad, sizeof(pad));
    sha256_add(&s, message, n);
    sha256_end(&s, inner);
    for (int i = 0; i < SHA256_BLOCK; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    sha256_start(&s);
    sha256_add(&s, pad, sizeof(pad));
    sha256_add(&s, inner, sizeof(inner));
    sha256_end(&s, out);
    explicit_bzero(pad, sizeof(pad));
    explicit_bzero(&s, sizeof(s));
}

void sha256_hex(const uint8_t hash[SHA256_BYTES], char out[2 * SHA256_BYTES + 1])
{
    static const char digit[] = "0123456789abcdef";
    for (int i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = digit[hash[i] >> 4];
        out[2 * i + 1] = digit[hash[i] & 15];
    }
    out[2 * SHA256_BYTES] = 0;
}
