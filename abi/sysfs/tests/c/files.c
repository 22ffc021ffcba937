/* The files of our devices by every function of the C library that this library stands before. The device is ferri_lo: its interface
 * is the loopback's, which every namespace has. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #x, errno); exit(1); } } while (0)
#define FAILS(x, e) do { errno = 0; CHECK((long)(x) == -1); CHECK(errno == (e)); } while (0)
#define CLASS "/sys/class/infiniband"
#define DEV CLASS "/ferri_lo"

static void files(void)
{
	char text[64] = "";
	struct stat st;
	int fd = open(DEV "/node_type", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && read(fd, text, sizeof(text)) == 6 && !strcmp(text, "1: CA\n"));
	CHECK(read(fd, text, sizeof(text)) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && write(fd, "x", 1) == -1);
	close(fd);
	FILE *file = fopen(DEV "/ports/1/link_layer", "r");
	CHECK(file && fgets(text, sizeof(text), file) && !strcmp(text, "Ethernet\n"));
	fclose(file);
	CHECK(!stat(DEV "/node_type", &st) && S_ISREG(st.st_mode) && st.st_size == 4096 && (st.st_mode & 0777) == 0444);
	FAILS(open(DEV "/node_type", O_RDWR), EACCES);
	FAILS(open(DEV "/new", O_WRONLY | O_CREAT, 0600), EACCES);
	FAILS(open(DEV "/node_type", O_RDONLY | O_DIRECTORY), ENOTDIR);
	FAILS(open(DEV "/node_type/", O_RDONLY), ENOTDIR);
	FAILS(open(DEV "/none", O_RDONLY), ENOENT);
	FAILS(open(CLASS "/ferri_none/node_type", O_RDONLY), ENOENT);
	FAILS(stat(DEV "/ports/2", &st), ENOENT);
	FAILS(access(DEV "/node_type", W_OK), EACCES);
	FAILS(getxattr(DEV "/node_type", "user.x", text, sizeof(text)), ENOTSUP);
	CHECK(!access(DEV "/node_type", R_OK) && !access(CLASS, X_OK));
	CHECK(!faccessat(AT_FDCWD, DEV, R_OK, 0) && !euidaccess(DEV, F_OK));
}

static void devices(void)
{
	struct stat st;
	struct statx stx;
	CHECK(!stat("/dev/infiniband/uverbs0", &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(231, 192));
	CHECK(!statx(AT_FDCWD, "/dev/infiniband/uverbs0", 0, STATX_BASIC_STATS, &stx) && S_ISCHR(stx.stx_mode));
	CHECK(stx.stx_rdev_major == 231 && stx.stx_ino == st.st_ino);
	CHECK(!access("/dev/infiniband/uverbs0", R_OK | W_OK));
	FAILS(stat("/dev/infiniband/uverbs1", &st), ENOENT);
	FAILS(open("/dev/infiniband/uverbs0", O_RDWR), ENXIO);
	CHECK(!stat("/dev/infiniband/rdma_cm", &st) && S_ISCHR(st.st_mode) && major(st.st_rdev) == 10);
	FAILS(open("/dev/infiniband/rdma_cm", O_RDWR), ENXIO);
}

static void links(void)
{
	char text[PATH_MAX] = "", real[PATH_MAX];
	struct stat st, same;
	CHECK(readlink(DEV "/device/net/lo", text, sizeof(text)) == 17 && !strncmp(text, "/sys/class/net/lo", 17));
	CHECK(!lstat(DEV "/device/net/lo", &st) && S_ISLNK(st.st_mode));
	CHECK(!stat(DEV "/device/net/lo", &st) && S_ISDIR(st.st_mode));
	CHECK(!stat("/sys/class/net/lo", &same) && st.st_ino == same.st_ino);
	FAILS(readlink(DEV, text, sizeof(text)), EINVAL);
	int fd = open(DEV "/device/net/lo/address", O_RDONLY);
	CHECK(fd >= 0 && read(fd, text, 18) == 18 && !memcmp(text, "00:00:00:00:00:00\n", 18));
	close(fd);
	CHECK(realpath("/sys/class/net/lo", real) && realpath(DEV "/device/net/lo", text) && !strcmp(text, real));
	char *path = realpath("/sys/class/infiniband//./ferri_lo/ports/../device", NULL);
	CHECK(path && !strcmp(path, DEV "/device"));
	free(path);
	path = realpath("/sys/class/infiniband_verbs/uverbs0/device/infiniband_verbs/uverbs0", NULL);
	CHECK(path && !strcmp(path, "/sys/class/infiniband_verbs/uverbs0"));
	free(path);
	CHECK(!realpath(DEV "/none", text) && errno == ENOENT);
	/* out again */
	CHECK(!stat(CLASS "/../net/lo", &st) && st.st_ino == same.st_ino);
}

static int by_name(const struct dirent *entry)
{
	return entry->d_name[0] == 'p';
}

static void directories(void)
{
	int seen = 0;
	struct dirent *entry, **list;
	struct stat st;
	DIR *dir = opendir(CLASS);
	CHECK(dir);
	while ((entry = readdir(dir)))
		seen += !strcmp(entry->d_name, "ferri_lo") && entry->d_type == DT_DIR ? 100 : 1;
	CHECK(seen == 102);
	rewinddir(dir);
	CHECK(telldir(dir) == 0 && readdir(dir) && telldir(dir) == 1);
	CHECK(fstatat(dirfd(dir), "ferri_lo/hw_rev", &st, 0) == 0 && S_ISREG(st.st_mode));
	CHECK(fstat(dirfd(dir), &st) == 0 && S_ISDIR(st.st_mode));
	CHECK(fstatat(dirfd(dir), "", &st, AT_EMPTY_PATH) == 0 && S_ISDIR(st.st_mode));
	int fd = openat(dirfd(dir), "ferri_lo/ports", O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0 && !closedir(dir));
	dir = fdopendir(fd);
	CHECK(dir && readdir(dir) && readdir(dir) && (entry = readdir(dir)) && !strcmp(entry->d_name, "1") && !readdir(dir));
	closedir(dir);
	FAILS(fcntl(fd, F_GETFD), EBADF);
	CHECK(scandir(DEV, &list, by_name, alphasort) == 1 && !strcmp(list[0]->d_name, "ports"));
	free(list[0]);
	free(list);
	CHECK(!opendir(DEV "/node_type") && errno == ENOTDIR);
	CHECK(!opendir(DEV "/none") && errno == ENOENT);
	/* a stream of the file system is left alone */
	dir = opendir("/");
	CHECK(dir && readdir(dir) && !fstat(dirfd(dir), &st) && S_ISDIR(st.st_mode) && !closedir(dir));
}

/* A descriptor of ours that a child inherits and its parent has closed. */
static void children(void)
{
	int fd = open(DEV, O_RDONLY | O_DIRECTORY), status;
	pid_t child = fork();
	CHECK(fd >= 0 && child >= 0);
	if (!child) {
		char text[40];
		int file = openat(fd, "ports/1/state", O_RDONLY);
		_exit(file >= 0 && read(file, text, sizeof(text)) == 10 && !strncmp(text, "4: ACTIVE\n", 10) ? 0 : 1);
	}
	close(fd);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static bool is_directory(const char *wanted)
{
	char text[PATH_MAX];
	char *allocated = getcwd(NULL, 0), *named = get_current_dir_name();
	bool same = getcwd(text, sizeof(text)) == text && !strcmp(text, wanted) && allocated && !strcmp(allocated, wanted)
		&& named && !strcmp(named, wanted);
	free(allocated);
	free(named);
	return same;
}

static void directory(void)
{
	char text[64] = "";
	struct stat st, same;
	struct statx stx;
	int status, slash = open("/", O_RDONLY | O_DIRECTORY), fd;
	CHECK(!chdir(DEV "/./ports//1/..") && is_directory(DEV "/ports"));
	CHECK(!getcwd(text, 5) && errno == ERANGE);
	CHECK(!stat("1/state", &st) && S_ISREG(st.st_mode) && !stat(DEV "/ports/1/state", &same) && st.st_ino == same.st_ino);
	CHECK(!statx(AT_FDCWD, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) && S_ISDIR(stx.stx_mode));
	CHECK((fd = open("./1/state", O_RDONLY)) >= 0 && read(fd, text, 9) == 9 && !strcmp(text, "4: ACTIVE") && !close(fd));
	FAILS(open("1/new", O_WRONLY | O_CREAT, 0600), EACCES);
	FAILS(open("", O_RDONLY), ENOENT);
	FAILS(chdir("1/state"), ENOTDIR);
	FAILS(chdir("2"), ENOENT);
	CHECK(is_directory(DEV "/ports") && !access("../node_type", R_OK) && !access("../../../net/lo", R_OK));
	/* a child of vfork has a directory of its own, in its parent's memory */
	pid_t child = vfork();
	if (!child)
		_exit(chdir("/") || chdir("/sys/class/infiniband_verbs") || chdir("/"));
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(!chdir("/"));
	child = vfork();
	if (!child)
		_exit(chdir(CLASS));
	CHECK(waitpid(child, &status, 0) == child && status == 0 && is_directory("/") && access("ferri_lo", F_OK) == -1);
	/* by a descriptor, into what is ours and out again; through a link, and by ".." */
	CHECK((fd = open(CLASS, O_RDONLY | O_DIRECTORY)) >= 0 && !fchdir(fd) && !close(fd) && is_directory(CLASS));
	CHECK(!chdir("ferri_lo") && is_directory(DEV) && !fchdir(slash) && is_directory("/") && !close(slash));
	CHECK(!chdir("/sys/class/infiniband_verbs/uverbs0/device/infiniband_verbs/uverbs0"));
	CHECK(is_directory("/sys/class/infiniband_verbs/uverbs0"));
	CHECK(!chdir("../..") && is_directory("/sys/class") && access("uverbs0", F_OK) == -1 && !chdir("/"));
}

int main(void)
{
	struct stat st;
	/* other paths, a failure of theirs too */
	CHECK(!stat("/", &st) && stat("/none", &st) == -1 && errno == ENOENT);
	FAILS(open("", O_RDONLY), ENOENT);
	files();
	devices();
	links();
	directories();
	children();
	directory();
	return 0;
}
