/* MPI_THREAD_MULTIPLE: threads of each rank talk at once, on communicators of their own and on one with tags of their own, in every way of waiting. */
#include "check.h"
#include <pthread.h>

#define THREADS 4
#define ROUNDS 60
#define WINDOW 16
#define LONG 100000

static MPI_Comm own[THREADS];

/* What comes next, what came before, in a ring of the ranks. */
static int next(void) { return (rank + 1) % size; }
static int previous(void) { return (rank + size - 1) % size; }

/* Collectives on a communicator of this thread's, while others run theirs. */
static void collectives(int me, int round)
{
	int mine = rank + me + round, sum = 0, expected = 0, flag = 0;
	MPI_Request request;
	for (int i = 0; i < size; i++)
		expected += i + me + round;
	CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, own[me]) == MPI_SUCCESS && sum == expected);
	CHECK(MPI_Ibarrier(own[me], &request) == MPI_SUCCESS);
	while (!flag)
		CHECK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	sum = rank == round % size ? mine : -1;
	CHECK(MPI_Bcast(&sum, 1, MPI_INT, round % size, own[me]) == MPI_SUCCESS);
	CHECK(sum == round % size + me + round);
}

/* A window of messages, taken one by one as they are over. */
static void windows(int me, int round)
{
	int out[WINDOW], in[WINDOW], seen = 0, at;
	MPI_Request requests[2 * WINDOW];
	MPI_Status status;
	for (int i = 0; i < WINDOW; i++) {
		out[i] = rank * 1000000 + round * 1000 + i;
		CHECK(MPI_Irecv(&in[i], 1, MPI_INT, previous(), me, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS);
	}
	for (int i = 0; i < WINDOW; i++)
		CHECK(MPI_Isend(&out[i], 1, MPI_INT, next(), me, MPI_COMM_WORLD, &requests[WINDOW + i]) == MPI_SUCCESS);
	if (round % 3 == 0) {
		CHECK(MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	} else if (round % 3 == 1) {
		for (;;) {
			CHECK(MPI_Waitany(2 * WINDOW, requests, &at, &status) == MPI_SUCCESS);
			if (at == MPI_UNDEFINED)
				break;
			seen++;
		}
		CHECK(seen == 2 * WINDOW);
	} else {
		int places[2 * WINDOW], count;
		while (seen < 2 * WINDOW) {
			CHECK(MPI_Waitsome(2 * WINDOW, requests, &count, places, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
			seen += count;
		}
	}
	for (int i = 0; i < WINDOW; i++)
		CHECK(in[i] == previous() * 1000000 + round * 1000 + i);
}

/* Messages whose length the receiver asks for, or takes out before it receives them. */
static void probes(int me, int round)
{
	int length = 1 + (round * 37 + me) % 700, count, flag = 0;
	unsigned char out[800], in[800];
	MPI_Request request;
	MPI_Message message;
	MPI_Status status;
	fill(out, length, me);
	CHECK(MPI_Isend(out, length, MPI_BYTE, next(), 100 + me, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
	switch (round % 4) {
	case 0:
		CHECK(MPI_Probe(MPI_ANY_SOURCE, 100 + me, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
		break;
	case 1:
		while (!flag)
			CHECK(MPI_Iprobe(previous(), 100 + me, MPI_COMM_WORLD, &flag, &status) == MPI_SUCCESS);
		break;
	case 2:
		CHECK(MPI_Mprobe(previous(), 100 + me, MPI_COMM_WORLD, &message, &status) == MPI_SUCCESS);
		break;
	case 3:
		while (!flag)
			CHECK(MPI_Improbe(MPI_ANY_SOURCE, 100 + me, MPI_COMM_WORLD, &flag, &message, &status) == MPI_SUCCESS);
		break;
	}
	CHECK(MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS && count == length);
	if (round % 4 < 2)
		CHECK(MPI_Recv(in, count, MPI_BYTE, status.MPI_SOURCE, 100 + me, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
	else
		CHECK(MPI_Mrecv(in, count, MPI_BYTE, &message, &status) == MPI_SUCCESS);
	CHECK(holds(in, length, me));
	CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

/* Long messages, and messages of a rank to itself. */
static void others(int me, unsigned char *out, unsigned char *in)
{
	int mine = me, got = -1;
	fill(out, LONG, rank + me);
	CHECK(MPI_Sendrecv(out, LONG, MPI_BYTE, next(), 200 + me, in, LONG, MPI_BYTE, previous(), 200 + me, MPI_COMM_WORLD,
			   MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(holds(in, LONG, previous() + me));
	CHECK(MPI_Sendrecv(&mine, 1, MPI_INT, 0, 300 + me, &got, 1, MPI_INT, 0, 300 + me, MPI_COMM_SELF, MPI_STATUS_IGNORE) ==
	      MPI_SUCCESS);
	CHECK(got == me);
}

static void *work(void *argument)
{
	int me = (int)(long)argument;
	unsigned char *memory = malloc(2 * LONG);
	CHECK(memory != NULL);
	for (int round = 0; round < ROUNDS; round++) {
		/* Not all threads do the same at the same time. */
		switch ((round + me) % 4) {
		case 0:
			windows(me, round);
			break;
		case 1:
			probes(me, round);
			break;
		case 2:
			collectives(me, round);
			break;
		case 3:
			others(me, memory, memory + LONG);
			break;
		}
	}
	free(memory);
	return NULL;
}

/* One thread waits for what another thread of the same rank sends it. */
static void *sends_to_itself(void *argument)
{
	int value = 5;
	(void)argument;
	CHECK(MPI_Send(&value, 1, MPI_INT, 0, 7, MPI_COMM_SELF) == MPI_SUCCESS);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	int provided, value = 0;
	CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
	CHECK(provided == MPI_THREAD_MULTIPLE);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 0; i < THREADS; i++)
		CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &own[i]) == MPI_SUCCESS);
	for (long i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(pthread_create(&threads[0], NULL, sends_to_itself, NULL) == 0);
	CHECK(MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE) == MPI_SUCCESS && value == 5);
	CHECK(pthread_join(threads[0], NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(MPI_Comm_free(&own[i]) == MPI_SUCCESS);
	return end("threads");
}
