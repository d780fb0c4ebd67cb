/*
 * Preloaded into programs of the guest: libstdc++'s std::random_device reads from the guest's kernel, which is seeded,
 * not from the processor's RDRAND, which is not. The symbol is std::random_device::_M_getval().
 */
#include <stdlib.h>
#include <sys/random.h>

unsigned _ZNSt13random_device9_M_getvalEv(void *device)
{
    unsigned value;
    (void)device;
    if (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value)
        abort();
    return value;
}
