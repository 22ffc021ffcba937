/*
 * Children of a process whose other threads open and ask ports of libibumad at the fork: they never hang, what they inherited refuses
 * with EIO, and a port of their own opens. Then the same with few descriptors: EMFILE or success. The library has no header here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int umad_open_port(const char *ca_name, int portnum);
int umad_close_port(int portid);
int umad_get_cas_names(char cas[][20], int max);
int umad_recv(int portid, void *umad, int *length, int timeout_ms);
int umad_register(int portid, int mgmt_class, int mgmt_version, unsigned char rmpp_version, long *method_mask);

enum { CHILDREN = 40 };

static volatile int stop;

#define CHECK(condition)                                                      \
	do {                                                                  \
		if (!(condition)) {                                           \
			printf("%d: %s\n", __LINE__, #condition);             \
			fflush(stdout);                                       \
			_exit(1);                                             \
		}                                                             \
	} while (0)

static void *opens(void *unused)
{
	while (!stop) {
		char names[4][20];
		int port = umad_open_port(NULL, 0);

		CHECK(port >= 0);
		CHECK(umad_get_cas_names(names, 4) == 1);
		CHECK(umad_close_port(port) == 0);
	}
	return unused;
}

static void child(int inherited)
{
	char packet[512];
	int length = 256;

	alarm(20);
	CHECK(umad_recv(inherited, packet, &length, 0) == -EIO);
	CHECK(umad_register(inherited, 3, 2, 0, NULL) == -EIO);
	CHECK(umad_close_port(inherited) == 0);
	int own = umad_open_port(NULL, 0);

	CHECK(own >= 0);
	CHECK(umad_register(own, 3, 2, 0, NULL) >= 0);
	CHECK(umad_close_port(own) == 0);
}

static void few_descriptors(void)
{
	struct rlimit before, limit;

	CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
	limit = before;
	for (limit.rlim_cur = 3; limit.rlim_cur < 20; limit.rlim_cur++) {
		CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
		int port = umad_open_port(NULL, 0);
		int agent = port >= 0 ? umad_register(port, 3, 2, 0, NULL) : 0;

		CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
		CHECK(port >= 0 || port == -EMFILE);
		CHECK(agent >= 0 || agent == -EMFILE);
		if (port >= 0)
			CHECK(umad_close_port(port) == 0);
	}
}

int main(void)
{
	pthread_t threads[2];
	int port = umad_open_port(NULL, 0), status;

	CHECK(port >= 0);
	for (int nth = 0; nth < 2; nth++)
		CHECK(pthread_create(&threads[nth], NULL, opens, NULL) == 0);
	for (int nth = 0; nth < CHILDREN; nth++) {
		pid_t pid = fork();

		if (pid == 0) {
			child(port);
			if (nth & 1)
				exit(0);
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(!WIFSIGNALED(status));
		CHECK(status == 0);
	}
	stop = 1;
	for (int nth = 0; nth < 2; nth++)
		CHECK(pthread_join(threads[nth], NULL) == 0);
	CHECK(umad_register(port, 3, 2, 0, NULL) >= 0);
	CHECK(umad_close_port(port) == 0);
	few_descriptors();
	return 0;
}
