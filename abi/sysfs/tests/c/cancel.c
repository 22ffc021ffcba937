/* The C library's cancellation points stay such under the preload, for what is the program's and for what is ours; and its other functions are none. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "../../../verbs/tests/c/cancelled.h"

static char place[64] = "/tmp/ferriband-cancel-XXXXXX", fifo[96], path[96];

static void do_recvfrom(void *fd)
{
	char bytes[8];
	struct sockaddr_in from;
	socklen_t length = sizeof(from);

	CHECK(recvfrom(*(int *)fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &length) > 0);
}

static void do_recvmsg(void *fd)
{
	char bytes[8];
	struct iovec part = { bytes, sizeof(bytes) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	CHECK(recvmsg(*(int *)fd, &message, 0) > 0);
}

static void do_open(void *unused)
{
	(void)unused;
	close(open(fifo, O_RDONLY));
}

static void do_openat(void *unused)
{
	(void)unused;
	close(openat(AT_FDCWD, fifo, O_RDONLY));
}

static void do_send(void *fd)
{
	static char bytes[4 << 20];

	send(*(int *)fd, bytes, sizeof(bytes), 0);
}

static void do_sendto(void *fd)
{
	static char bytes[4 << 20];

	sendto(*(int *)fd, bytes, sizeof(bytes), 0, NULL, 0);
}

static void do_sendmsg(void *fd)
{
	static char bytes[4 << 20];
	struct iovec part = { bytes, sizeof(bytes) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	sendmsg(*(int *)fd, &message, 0);
}

/* The socket's room for connections is taken. */
static void do_connect(void *unused)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)unused;
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	connect(fd, (struct sockaddr *)&at, sizeof(at));
}

static void both_ways(void (*call)(void *), void *on)
{
	cancelled_in(call, on, ASLEEP);
	cancelled_in(call, on, PENDING);
}

/* What is answered here has no cancellation point in it. */
static void *through(void *argument)
{
	struct addrinfo *found;
	struct stat status;
	char text[64];
	int *passed = argument;

	CHECK(pthread_cancel(pthread_self()) == 0);
	CHECK(stat("/sys/class/infiniband/ferri_lo/node_guid", &status) == 0);
	DIR *directory = opendir("/sys/class/infiniband");

	CHECK(directory && readdir(directory));
	closedir(directory);
	CHECK(readlink("/sys/class/infiniband/ferri_lo", text, sizeof(text)) != 0);
	CHECK(getaddrinfo("127.0.0.1", "80", NULL, &found) == 0);
	freeaddrinfo(found);
	int device = open("/sys/class/infiniband/ferri_lo/node_guid", O_RDONLY);

	CHECK(device >= 0);
	*passed = 1;
	pthread_testcancel();
	return NULL;
}

int main(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), pair[2], full = socket(AF_UNIX, SOCK_STREAM, 0);

	CHECK(mkdtemp(place));
	snprintf(fifo, sizeof(fifo), "%s/fifo", place);
	snprintf(path, sizeof(path), "%s/socket", place);
	CHECK(mkfifo(fifo, 0600) == 0);
	CHECK(bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0);
	both_ways(do_recvfrom, &fd);
	both_ways(do_recvmsg, &fd);
	both_ways(do_open, NULL);
	both_ways(do_openat, NULL);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	both_ways(do_send, &pair[0]);
	both_ways(do_sendto, &pair[0]);
	both_ways(do_sendmsg, &pair[0]);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	CHECK(bind(full, (struct sockaddr *)&at, sizeof(at)) == 0);
	CHECK(listen(full, 0) == 0);
	do_connect(NULL);
	both_ways(do_connect, NULL);
	unlink(path);
	unlink(fifo);
	rmdir(place);
	for (int round = 0; round < 3; round++) {
		pthread_t thread;
		void *value = NULL;
		int passed = 0;

		CHECK(pthread_create(&thread, NULL, through, &passed) == 0);
		CHECK(pthread_join(thread, &value) == 0);
		CHECK(value == PTHREAD_CANCELED);
		EQ(passed, 1);
	}
	return 0;
}
