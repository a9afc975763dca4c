/*
 * The first process of the virtual machine (guest.py): loads the modules that lie in the initramfs, mounts the host's
 * root below a layer of memory, and runs there what /command says. Its output goes to the shared directory. With
 * /systemd there, that root's systemd takes its place and does so.
 * Invariant: the host's files are read only; the machine always powers off.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHARE "trans=virtio,version=9p2000.L,msize=262144,cache=loose"
#define OUT "/machine/run/out"

static void mounted(const char *from, const char *at, const char *type, unsigned long flags, const char *words)
{
	mkdir(at, 0755);
	if (mount(from, at, type, flags, words))
		printf("guest: mount %s at %s: %s\n", type, at, strerror(errno));
}

/* In the order of their names, which is that of their dependencies. */
static void load_modules(void)
{
	struct dirent **found;
	const int count = scandir("/modules", &found, NULL, alphasort);
	char path[512];

	for (int i = 0; i < count; i++) {
		if (found[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/modules/%s", found[i]->d_name);
		const int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
			printf("guest: module %s: %s\n", found[i]->d_name, strerror(errno));
		close(fd);
	}
}

static void mount_root(void)
{
	mounted("root", "/lower", "9p", MS_RDONLY, SHARE);
	mounted("upper", "/upper", "tmpfs", 0, "");
	mkdir("/upper/files", 0755);
	mkdir("/upper/work", 0755);
	mounted("overlay", "/machine", "overlay", 0, "lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work");
	mounted("proc", "/machine/proc", "proc", 0, "");
	mounted("sys", "/machine/sys", "sysfs", 0, "");
	mounted("dev", "/machine/dev", "devtmpfs", 0, "");
	mounted("pts", "/machine/dev/pts", "devpts", 0, "");
	mounted("shm", "/machine/dev/shm", "tmpfs", 0, "");
	mounted("run", "/machine/run", "tmpfs", 0, "");
	mounted("cgroup", "/machine/sys/fs/cgroup", "cgroup2", 0, "");
	mounted("bpf", "/machine/sys/fs/bpf", "bpf", 0, "");
	mounted("debug", "/machine/sys/kernel/debug", "debugfs", 0, "");
	mounted("trace", "/machine/sys/kernel/tracing", "tracefs", 0, "");
	mounted("out", OUT, "9p", 0, "trans=virtio,version=9p2000.L,cache=none");
}

/* The root's own first process, as this one; returns where it can't be. */
static void become_systemd(void)
{
	if (chdir("/machine") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot("."))
		printf("guest: root: %s\n", strerror(errno));
	execl("/lib/systemd/systemd", "systemd", (char *)NULL);
	printf("guest: systemd: %s\n", strerror(errno));
}

static int run_command(void)
{
	int status = 1;
	const pid_t child = fork();

	if (!child) {
		const int out = open(OUT "/output", O_WRONLY | O_CREAT | O_APPEND, 0644);

		if (out >= 0) {
			dup2(out, 1);
			dup2(out, 2);
		}
		if (chroot("/machine") || chdir("/"))
			_exit(126);
		execl("/bin/sh", "sh", "/run/command", (char *)NULL);
		_exit(127);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void copy(const char *from, const char *to)
{
	char bytes[65536];
	const int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0755);
	ssize_t got;

	while ((got = read(in, bytes, sizeof(bytes))) > 0)
		if (write(out, bytes, (size_t)got) != got)
			break;
	close(in);
	close(out);
}

int main(void)
{
	char said[16];
	int status, fd;

	mkdir("/proc", 0755);
	mkdir("/dev", 0755);
	mount("dev", "/dev", "devtmpfs", 0, "");
	fd = open("/dev/console", O_RDWR);
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	setvbuf(stdout, NULL, _IONBF, 0);
	load_modules();
	mount_root();
	copy("/command", "/machine/run/command");
	if (!access("/systemd", F_OK)) {
		become_systemd();
		reboot(RB_POWER_OFF);
	}
	status = run_command();
	fd = open(OUT "/status", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	snprintf(said, sizeof(said), "%d\n", status);
	if (write(fd, said, strlen(said)) < 0)
		printf("guest: status: %s\n", strerror(errno));
	close(fd);
	sync();
	reboot(RB_POWER_OFF);
	return 0;
}
