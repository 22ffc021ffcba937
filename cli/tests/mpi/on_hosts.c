/* A rank says where it is, by every way that there is to ask, and with whom; then all exchange messages with all, and a byte goes by TCP between hosts. */
#include <arpa/inet.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
			MPI_Abort(MPI_COMM_WORLD, 1); \
		} \
	} while (0)

enum { LONG = 100000 };

/* Messages to and fro between each two: short ones, and some of a length that no rank sends unasked. */
static void exchange(int rank, int ranks)
{
	static int out[LONG], in[LONG];
	for (int step = 1; step < ranks; step++) {
		int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
		for (int length = 1; length <= LONG; length *= 10) {
			for (int i = 0; i < length; i++)
				out[i] = rank * 1000 + i;
			MPI_Sendrecv(out, length, MPI_INT, to, length, in, length, MPI_INT, from, length, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			for (int i = 0; i < length; i++)
				CHECK(in[i] == from * 1000 + i);
		}
	}
}

/* Each rank serves the one before it at any address of its own; that one's address is its host's. */
static void talk(int rank, int ranks)
{
	struct sockaddr_in own = {.sin_family = AF_INET}, peer;
	socklen_t length = sizeof own;
	int server = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(server, (struct sockaddr *)&own, length) == 0 && listen(server, 8) == 0);
	CHECK(getsockname(server, (struct sockaddr *)&own, &length) == 0);
	struct sockaddr_in *all = malloc(ranks * sizeof *all);
	MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
	int client = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(client, (struct sockaddr *)&all[(rank + 1) % ranks], sizeof own) == 0);
	length = sizeof peer;
	int there = accept(server, (struct sockaddr *)&peer, &length);
	CHECK(there >= 0);
	CHECK(peer.sin_addr.s_addr == all[(rank + ranks - 1) % ranks].sin_addr.s_addr);
	char byte = 'x';
	CHECK(send(client, &byte, 1, 0) == 1 && recv(there, &byte, 1, 0) == 1);
	printf("rank %d: address %s\n", rank, inet_ntoa(own.sin_addr));
	close(client), close(there), close(server);
	free(all);
}

int main(int argc, char **argv)
{
	int rank, ranks, length;
	char processor[MPI_MAX_PROCESSOR_NAME], host[256];
	struct utsname system;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Get_processor_name(processor, &length);
	CHECK(gethostname(host, sizeof host) == 0 && uname(&system) == 0);
	printf("rank %d: names %s %s %s\n", rank, processor, host, system.nodename);

	MPI_Comm near;
	int count, first = rank;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
	MPI_Comm_size(near, &count);
	MPI_Bcast(&first, 1, MPI_INT, 0, near);
	printf("rank %d: %d near, the first is %d\n", rank, count, first);
	MPI_Comm_free(&near);

	printf("rank %d: /sys %s\n", rank, access("/sys/class/infiniband/ferri0/ports/1/gids/0", R_OK) == 0 ? "there" : "missing");
	exchange(rank, ranks);
	talk(rank, ranks);
	MPI_Finalize();
	return 0;
}
