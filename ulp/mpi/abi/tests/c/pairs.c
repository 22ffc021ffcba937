/* Everything that two ranks do with each other: blocking and not, wildcards, probes, synchronous sends, windows, truncation. Odd one out: idle. */
#include "check.h"

#define WINDOW 200

static int peer;

static void ping_pong(void)
{
	static unsigned char out[1 << 21], in[1 << 21];
	for (long length = 0; length <= (long)sizeof out; length = length < 64 ? length + 1 : length * 2 - 17) {
		int rounds = length < 10000 ? 40 : 4;
		for (int round = 0; round < rounds; round++) {
			MPI_Status status;
			int count;
			fill(out, length, rank + round);
			if (rank < peer) {
				MPI_Send(out, length, MPI_CHAR, peer, round, MPI_COMM_WORLD);
				MPI_Recv(in, length, MPI_CHAR, peer, round, MPI_COMM_WORLD, &status);
			} else {
				MPI_Recv(in, sizeof in, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
				MPI_Send(out, length, MPI_CHAR, peer, round, MPI_COMM_WORLD);
			}
			MPI_Get_count(&status, MPI_CHAR, &count);
			CHECK(count == length && status.MPI_TAG == round && status.MPI_SOURCE == peer);
			CHECK(holds(in, length, peer + round));
		}
	}
}

/* Both send many before either receives: far more than a block holds, short and long mixed. */
static void windows(void)
{
	static unsigned char out[WINDOW][30000], in[WINDOW][30000];
	MPI_Request requests[2 * WINDOW];
	MPI_Status statuses[2 * WINDOW];
	for (int i = 0; i < WINDOW; i++) {
		fill(out[i], sizeof out[i], rank * 3 + i);
		MPI_Isend(out[i], i * 149, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
	}
	/* Those of the even tags in order, then those of the odd ones from the last to the first. */
	for (int i = 0; i < WINDOW; i += 2)
		MPI_Irecv(in[i], sizeof in[i], MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[WINDOW + i]);
	for (int i = WINDOW - 1; i > 0; i -= 2)
		MPI_Irecv(in[i], sizeof in[i], MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[WINDOW + i]);
	CHECK(MPI_Waitall(2 * WINDOW, requests, statuses) == MPI_SUCCESS);
	for (int i = 0; i < WINDOW; i++) {
		int count;
		MPI_Get_count(&statuses[WINDOW + i], MPI_BYTE, &count);
		CHECK(count == i * 149 && statuses[WINDOW + i].MPI_TAG == i);
		CHECK(holds(in[i], count, peer * 3 + i) && requests[i] == MPI_REQUEST_NULL);
	}
}

/* Messages of one tag are received in the order of sending, whatever path they take. */
static void order(void)
{
	static int out[400][1000], in[400][1000];
	MPI_Request requests[400];
	for (int i = 0; i < 400; i++) {
		out[i][0] = i;
		MPI_Isend(out[i], i % 5 == 0 ? 1000 : 1 + i % 7, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[i]);
	}
	for (int i = 0; i < 400; i++) {
		MPI_Recv(in[i], 1000, MPI_INT, i % 3 ? peer : MPI_ANY_SOURCE, i % 2 ? 1 : MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK(in[i][0] == i);
	}
	CHECK(MPI_Waitall(400, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
}

static void probes(void)
{
	double value = rank + 0.5, got = 0;
	MPI_Status status;
	int count, flag = 0;
	MPI_Request request;
	if (rank < peer) {
		MPI_Send(&value, 1, MPI_DOUBLE, peer, 77, MPI_COMM_WORLD);
		while (!flag)
			MPI_Iprobe(peer, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
		CHECK(status.MPI_TAG == 78);
		MPI_Recv(&got, 1, MPI_DOUBLE, peer, 78, MPI_COMM_WORLD, &status);
	} else {
		MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_DOUBLE, &count);
		CHECK(status.MPI_SOURCE == peer && status.MPI_TAG == 77 && count == 1);
		MPI_Get_count(&status, MPI_INT, &count);
		CHECK(count == 2);
		MPI_Recv(&got, 1, MPI_DOUBLE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
		MPI_Isend(&value, 1, MPI_DOUBLE, peer, 78, MPI_COMM_WORLD, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	CHECK(got == peer + 0.5);
}

/* A synchronous send is not over before its receive: the token that is sent after it is what the receiver waits for first. */
static void synchronous(int length)
{
	static char out[100000], in[100000];
	MPI_Request request;
	int flag, token = 0;
	if (rank < peer) {
		MPI_Issend(out, length, MPI_CHAR, peer, 5, MPI_COMM_WORLD, &request);
		for (int i = 0; i < 100; i++) {
			MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
			CHECK(!flag);
		}
		MPI_Send(&token, 1, MPI_INT, peer, 6, MPI_COMM_WORLD);
		CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		CHECK(MPI_Ssend(out, length, MPI_CHAR, peer, 7, MPI_COMM_WORLD) == MPI_SUCCESS);
	} else {
		MPI_Recv(&token, 1, MPI_INT, peer, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Recv(in, sizeof in, MPI_CHAR, peer, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Recv(in, sizeof in, MPI_CHAR, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

static void truncation(int length)
{
	static char out[100000], in[100000];
	MPI_Status status;
	int count;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	memset(in, 1, sizeof in);
	if (rank < peer) {
		MPI_Send(out, length, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
	} else {
		CHECK(class_of(MPI_Recv(in, length - 1, MPI_CHAR, peer, 0, MPI_COMM_WORLD, &status)) == MPI_ERR_TRUNCATE);
		MPI_Get_count(&status, MPI_CHAR, &count);
		CHECK(count <= length - 1 && in[length - 1] == 1);
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void any_of_many(void)
{
	int out[10], in[10], index, done = 0, seen = 0;
	MPI_Request requests[10];
	for (int i = 0; i < 10; i++) {
		out[i] = i;
		MPI_Irecv(&in[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[i]);
	}
	for (int i = 9; i >= 0; i--)
		MPI_Send(&out[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD);
	for (; done < 5; done++) {
		MPI_Waitany(10, requests, &index, MPI_STATUS_IGNORE);
		CHECK(index >= 0 && in[index] == index && !(seen & 1 << index));
		seen |= 1 << index;
	}
	while (done < 10) {
		int indices[10], count;
		MPI_Waitsome(10, requests, &count, indices, MPI_STATUSES_IGNORE);
		CHECK(count > 0);
		for (int i = 0; i < count; i++)
			seen |= 1 << indices[i];
		done += count;
	}
	CHECK(seen == 1023);
	MPI_Waitany(10, requests, &index, MPI_STATUS_IGNORE);
	CHECK(index == MPI_UNDEFINED);
}

static void exchange(void)
{
	int mine = rank, theirs = -1;
	MPI_Status status;
	MPI_Sendrecv(&mine, 1, MPI_INT, peer, 1, &theirs, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &status);
	CHECK(theirs == peer && status.MPI_SOURCE == peer);
	MPI_Sendrecv_replace(&mine, 1, MPI_INT, peer, 2, peer, 2, MPI_COMM_WORLD, &status);
	CHECK(mine == peer);
	MPI_Recv(&mine, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
	CHECK(mine == peer && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
	CHECK(MPI_Send(&mine, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	peer = rank ^ 1;
	if (peer < size) {
		ping_pong();
		windows();
		order();
		probes();
		synchronous(8);
		synchronous(90000);
		truncation(10);
		truncation(50000);
		any_of_many();
		exchange();
	}
	return end("pairs");
}
