/* Sockets of NETLINK_RDMA under the preloaded library: each function behaves as on the kernel's. Prints nothing unless something fails. */

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

#define CHECK(condition)                                                                         \
	do {                                                                                         \
		if (!(condition)) {                                                                      \
			printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);             \
			failures++;                                                                          \
		}                                                                                        \
	} while (0)

#define COMMAND(op) RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, op)

struct request {
	struct nlmsghdr header;
	struct nlattr index_header;
	unsigned int index;
};

static struct request request(int type, int flags)
{
	struct request one = {
		.header = {.nlmsg_len = sizeof one, .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags, .nlmsg_seq = 7},
		.index_header = {.nla_len = NLA_HDRLEN + sizeof one.index, .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX},
	};
	return one;
}

static int opened(int flags)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | flags, NETLINK_RDMA);
	CHECK(fd >= 0);
	return fd;
}

static unsigned int port_of(int fd)
{
	struct sockaddr_nl name;
	memset(&name, 0xff, sizeof name);
	socklen_t length = sizeof name;
	CHECK(getsockname(fd, (struct sockaddr *)&name, &length) == 0);
	CHECK(length == sizeof name && name.nl_family == AF_NETLINK && name.nl_groups == 0);
	return name.nl_pid;
}

static int nothing_to_read(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	return poll(&ready, 1, 0) == 0;
}

/* Reads messages up to one of the type that ends them; how many came before it. */
static int read_until(int fd, int last, unsigned int port)
{
	char buffer[8192];
	for (int count = 0;; count++) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		CHECK(poll(&ready, 1, 1000) == 1 && (ready.revents & POLLIN));
		ssize_t length = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
		CHECK(length >= (ssize_t)sizeof(struct nlmsghdr));
		if (length < 0)
			return -1;
		struct nlmsghdr *header = (struct nlmsghdr *)buffer;
		CHECK(NLMSG_OK(header, (unsigned int)length) && header->nlmsg_seq == 7 && header->nlmsg_pid == port);
		if (header->nlmsg_type == last)
			return count;
	}
}

static void names_and_options(void)
{
	int fd = opened(SOCK_CLOEXEC | SOCK_NONBLOCK);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_NONBLOCK));
	struct sockaddr_nl name = {.nl_family = AF_NETLINK};
	CHECK(bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
	CHECK(port_of(fd) == (unsigned int)getpid());
	/* as libnl: a port of its own choice */
	name.nl_pid = 0xf0000000 | getpid();
	CHECK(bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
	CHECK(port_of(fd) == name.nl_pid);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_NONBLOCK));
	CHECK(bind(fd, (struct sockaddr *)&name, 4) == -1 && errno == EINVAL);
	name.nl_family = AF_INET;
	CHECK(bind(fd, (struct sockaddr *)&name, sizeof name) == -1 && errno == EINVAL);
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK}, peer = {.nl_pid = 1};
	CHECK(connect(fd, (struct sockaddr *)&kernel, sizeof kernel) == 0);
	socklen_t length = sizeof peer;
	CHECK(getpeername(fd, (struct sockaddr *)&peer, &length) == 0);
	CHECK(length == sizeof peer && peer.nl_family == AF_NETLINK && peer.nl_pid == 0);
	kernel.nl_pid = 1;
	CHECK(connect(fd, (struct sockaddr *)&kernel, sizeof kernel) == -1 && errno == ECONNREFUSED);

	int one = 1, small = 1, value = -1;
	CHECK(setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof one) == 0);
	CHECK(setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof one) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
	length = sizeof value;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &length) == 0 && value == AF_NETLINK && length == sizeof value);
	CHECK(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &length) == 0 && value == NETLINK_RDMA);
	CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &length) == 0 && value == SOCK_RAW);
	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &length) == 0 && value == 0);

	/* small buffers do not keep answers out */
	struct request list = request(COMMAND(RDMA_NLDEV_CMD_GET), NLM_F_DUMP);
	CHECK(send(fd, &list, sizeof list, 0) == sizeof list);
	CHECK(read_until(fd, NLMSG_DONE, port_of(fd)) == 1);
	char byte;
	CHECK(recv(fd, &byte, 1, 0) == -1 && errno == EAGAIN);
	close(fd);
}

static void ways_to_send_and_receive(void)
{
	int fd = opened(0);
	unsigned int port = port_of(fd);
	struct request one = request(COMMAND(RDMA_NLDEV_CMD_GET), NLM_F_ACK);
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK}, from;
	CHECK(sendto(fd, &one, sizeof one, 0, (struct sockaddr *)&kernel, sizeof kernel) == sizeof one);

	/* how long it is, and the same again */
	char buffer[8192];
	ssize_t length = recv(fd, buffer, 1, MSG_PEEK | MSG_TRUNC);
	CHECK(length > (ssize_t)sizeof(struct nlmsghdr));
	memset(&from, 0xff, sizeof from);
	struct iovec part = {buffer, 4};
	struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1};
	CHECK(recvmsg(fd, &message, MSG_PEEK) == 4 && (message.msg_flags & MSG_TRUNC));
	part.iov_len = sizeof buffer;
	CHECK(recvmsg(fd, &message, 0) == length && !(message.msg_flags & MSG_TRUNC));
	CHECK(message.msg_namelen == sizeof from && from.nl_family == AF_NETLINK && from.nl_pid == 0 && from.nl_groups == 0);
	struct nlmsghdr *header = (struct nlmsghdr *)buffer;
	CHECK(header->nlmsg_len == (unsigned int)length && header->nlmsg_type == one.header.nlmsg_type);
	CHECK(header->nlmsg_pid == port && header->nlmsg_seq == 7);

	/* the acknowledgement, with an address that does not fit */
	memset(&from, 0xff, sizeof from);
	socklen_t room = 2;
	length = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &room);
	CHECK(length > 0 && room == sizeof from && from.nl_family == AF_NETLINK && from.nl_pid == 0xffffffff);
	struct nlmsgerr *error = NLMSG_DATA(header);
	CHECK(header->nlmsg_type == NLMSG_ERROR && error->error == 0 && error->msg.nlmsg_len == sizeof one);
	CHECK(nothing_to_read(fd));

	/* in parts, twice in one datagram */
	struct request unknown = request(COMMAND(RDMA_NLDEV_CMD_SET), 0);
	struct iovec parts[] = {{&one, 10}, {(char *)&one + 10, sizeof one - 10}, {&unknown, sizeof unknown}, {NULL, 0}};
	message = (struct msghdr){.msg_name = &kernel, .msg_namelen = sizeof kernel, .msg_iov = parts, .msg_iovlen = 4};
	CHECK(sendmsg(fd, &message, 0) == sizeof one + sizeof unknown);
	CHECK(read_until(fd, NLMSG_ERROR, port) == 1);
	CHECK(recv(fd, buffer, sizeof buffer, 0) > 0 && header->nlmsg_type == NLMSG_ERROR);
	CHECK(error->error == -EOPNOTSUPP && error->msg.nlmsg_type == unknown.header.nlmsg_type);
	CHECK(nothing_to_read(fd));

	kernel.nl_pid = 1;
	CHECK(sendto(fd, &one, sizeof one, 0, (struct sockaddr *)&kernel, sizeof kernel) == -1 && errno == ECONNREFUSED);
	CHECK(send(fd, NULL, 4, 0) == -1 && errno == EFAULT);
	CHECK(send(fd, &one, 3, 0) == 3 && nothing_to_read(fd));
	close(fd);
}

static void copies_and_forks(void)
{
	int fd = opened(0), copy = dup(fd), other = opened(0);
	unsigned int port = port_of(fd);
	CHECK(copy >= 0 && port_of(copy) == port);
	struct request list = request(COMMAND(RDMA_NLDEV_CMD_GET), NLM_F_DUMP);
	pid_t child = fork();
	if (child == 0)
		_exit(send(copy, &list, sizeof list, 0) != sizeof list);
	int status = -1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(nothing_to_read(other));
	close(copy);
	CHECK(read_until(fd, NLMSG_DONE, port) == 1);
	CHECK(nothing_to_read(fd));

	/* who never reads is told so */
	int sent = 0;
	while (sent < 100000 && send(fd, &list, sizeof list, 0) == sizeof list)
		sent++;
	CHECK(sent > 0 && sent < 100000 && errno == ENOBUFS);
	close(fd);
	close(other);
}

static void other_sockets_are_the_kernels(void)
{
	int ours = opened(0);
	CHECK(socket(AF_NETLINK, SOCK_STREAM, NETLINK_RDMA) == -1);
	int route = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	CHECK(route >= 0);
	struct {
		struct nlmsghdr header;
		struct rtgenmsg family;
	} list = {{sizeof list, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 7, 0}, {AF_UNSPEC}};
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK}, from = {0};
	CHECK(sendto(route, &list, sizeof list, 0, (struct sockaddr *)&kernel, sizeof kernel) == sizeof list);
	char buffer[32768];
	socklen_t room = sizeof from;
	CHECK(recvfrom(route, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &room) > 0);
	CHECK(((struct nlmsghdr *)buffer)->nlmsg_type == RTM_NEWLINK && from.nl_family == AF_NETLINK);
	close(route);

	int pair[2];
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
	CHECK(send(pair[0], "x", 1, 0) == 1 && recv(pair[1], buffer, sizeof buffer, 0) == 1 && buffer[0] == 'x');
	int value;
	room = sizeof value;
	CHECK(getsockopt(pair[0], SOL_SOCKET, SO_DOMAIN, &value, &room) == 0 && value == AF_UNIX);
	CHECK(setsockopt(pair[0], SOL_NETLINK, NETLINK_EXT_ACK, &value, sizeof value) == -1);
	close(pair[0]);
	close(pair[1]);
	CHECK(send(-1, "x", 1, 0) == -1 && errno == EBADF);
	close(ours);
	/* its number is another file's */
	CHECK(open("/dev/null", O_RDWR) == ours);
	CHECK(send(ours, "x", 1, 0) == -1 && errno == ENOTSOCK);
}

int main(void)
{
	names_and_options();
	ways_to_send_and_receive();
	copies_and_forks();
	other_sockets_are_the_kernels();
	return failures != 0;
}
