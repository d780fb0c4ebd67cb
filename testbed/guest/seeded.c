/*
 * Preloaded into the guest's kernel process: random numbers from a seed instead of from the host.
 *
 * The kernel calls getrandom(2) of the host when it starts and whenever it reseeds its pool. These calls are the only
 * source of randomness inside the guest. The generator is SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
 * number generators", OOPSLA 2014). It is not cryptographically secure: its purpose is repeatable trials.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static uint64_t state;

__attribute__((constructor)) static void read_seed(void)
{
    const char *seed = getenv("FIRSTFLIGHT_SEED");
    if (seed == NULL)
        abort(); /* without a seed nothing would be repeatable */
    state = strtoull(seed, NULL, 10);
}

static uint64_t next(void)
{
    uint64_t mixed = state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
    (void)flags;
    for (size_t done = 0; done < length; done += sizeof(uint64_t)) {
        uint64_t word = next();
        size_t left = length - done;
        memcpy((char *)buffer + done, &word, left < sizeof word ? left : sizeof word);
    }
    return (ssize_t)length;
}
