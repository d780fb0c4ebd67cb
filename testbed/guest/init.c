/*
 * The first process of a guest: mounts, runs one command in the job's folder, writes its status, powers off.
 *
 * The kernel's command line must not differ between runs, because it feeds the random pool. So all parameters are
 * files in JOB/.guest, each a list of strings terminated by zero bytes: `argv`, `environment`, `writable`, `visible`.
 * The job's folder is the working directory of the kernel's process on the host. `status` receives the command's exit
 * status (128 plus the signal's number after a signal) and its duration in nanoseconds of the guest's clock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOB "/run/job"
#define PARAMETERS JOB "/.guest/"

static void switch_off(void)
{
    sync();
    reboot(RB_POWER_OFF);
    _exit(1);
}

static void fail(const char *what)
{
    fprintf(stderr, "guest: %s: %s\n", what, strerror(errno));
    switch_off();
}

static void put(const char *type, const char *folder, const char *data)
{
    if (mount("none", folder, type, 0, data) != 0)
        fail(folder);
}

/* Mounts the host's folder read-only at the same path; creates missing parent folders. */
static void show(char *folder)
{
    for (char *at = folder + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        mkdir(folder, 0755);
        *at = '/';
    }
    mkdir(folder, 0755);
    if (mount("none", folder, "hostfs", MS_RDONLY, folder) != 0)
        fail(folder);
}

/* Returns the strings of a parameter file, followed by NULL. */
static char **list(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0 || fstat(file, &about) != 0)
        fail(path);
    char *text = calloc(1, (size_t)about.st_size + 1);
    size_t size = 0, count = 0;
    ssize_t got;
    while (text && (got = read(file, text + size, (size_t)about.st_size - size)) > 0)
        size += (size_t)got;
    for (size_t at = 0; at < size; at++)
        count += text[at] == 0;
    char **strings = calloc(count + 1, sizeof *strings);
    if (text == NULL || strings == NULL)
        fail(path);
    char *at = text;
    for (size_t number = 0; number < count; number++, at += strlen(at) + 1)
        strings[number] = at;
    close(file);
    return strings;
}

static void loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request) != 0)
        fail("lo");
    close(any);
}

static void redirect(const char *path, int flags, int descriptor)
{
    int file = open(path, flags, 0644);
    if (file < 0 || dup2(file, descriptor) < 0)
        fail(path);
    close(file);
}

/* Waits for the first tick: until then, timers expire only with ticks, and clocks report this low resolution. */
static void wait_for_precise_timers(void)
{
    struct timespec resolution, pause = {.tv_nsec = 1000000};
    for (int tries = 0; tries < 100; tries++) {
        if (clock_getres(CLOCK_MONOTONIC, &resolution) != 0)
            fail("clock_getres");
        if (resolution.tv_sec == 0 && resolution.tv_nsec == 1)
            return;
        nanosleep(&pause, NULL);
    }
    errno = ETIME;
    fail("timers of nanoseconds");
}

static void command(char **argv, char **environment)
{
    int write = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
    redirect("/dev/null", O_RDONLY, 0);
    redirect(PARAMETERS "stdout", write, 1);
    redirect(PARAMETERS "stderr", write, 2);
    setsid();
    environ = environment; /* execvp searches its PATH */
    execvp(argv[0], argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

int main(void)
{
    put("proc", "/proc", NULL);
    put("sysfs", "/sys", NULL);
    put("devtmpfs", "/dev", NULL);
    mkdir("/dev/pts", 0755);
    mkdir("/dev/shm", 0755);
    put("devpts", "/dev/pts", NULL);
    put("tmpfs", "/dev/shm", "mode=1777");
    put("tmpfs", "/run", "mode=755");
    mkdir(JOB, 0755);
    put("hostfs", JOB, "/proc/self/cwd/."); /* of the kernel's process */
    char **writable = list(PARAMETERS "writable");
    for (; *writable; writable++)
        put("tmpfs", *writable, "mode=1777");
    for (char **visible = list(PARAMETERS "visible"); *visible; visible++)
        show(*visible);
    loopback_up();
    char **argv = list(PARAMETERS "argv"), **environment = list(PARAMETERS "environment");
    if (chdir(JOB) != 0)
        fail(JOB);

    wait_for_precise_timers();

    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    pid_t child = fork(), one;
    if (child < 0)
        fail("fork");
    if (child == 0)
        command(argv, environment);
    int status = 0;
    while ((one = wait(&status)) != child)
        if (one < 0)
            fail("wait");
    clock_gettime(CLOCK_MONOTONIC, &after);
    kill(-1, SIGKILL); /* processes that outlived the command */
    while (wait(NULL) > 0)
        ;
    long long took = (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec;
    FILE *report = fopen(PARAMETERS "status", "w");
    if (report == NULL)
        fail("status");
    fprintf(report, "%d %lld\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), took);
    if (fclose(report) != 0)
        fail("status");
    switch_off();
}
