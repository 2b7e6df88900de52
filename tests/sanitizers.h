/* Which sanitizer the tests were built with: gcc defines a macro, clang has a feature. */
#ifndef TESTS_SANITIZERS_H
#define TESTS_SANITIZERS_H

#ifdef __has_feature
#define CLANG_HAS(feature) __has_feature(feature)
#else
#define CLANG_HAS(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || CLANG_HAS(address_sanitizer)
#define HAS_ADDRESS_SANITIZER 1
#else
#define HAS_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || CLANG_HAS(thread_sanitizer)
#define HAS_THREAD_SANITIZER 1
#else
#define HAS_THREAD_SANITIZER 0
#endif

/* Sweeps that are whole in the plain build are thinned to one in so many under AddressSanitizer, which makes them several times as slow;
 * FB_SOAK=1 runs them whole there too. */
#define SANITIZED_STRIDE(thinned) (HAS_ADDRESS_SANITIZER && !getenv("FB_SOAK") ? (thinned) : 1)

#endif
