/* Receives that wait for one rank, with whatever else may be under way: other receives of the same and of other ranks, messages that nobody has asked for yet, truncated and long ones, and
 * collectives that go on meanwhile. Each case twice: the message is there first, or the receive is. */
#include "check.h"
#include "random.h"

enum { ONE = 1, OTHER = 2, LAST = 3, MOST = 100000 };
static unsigned char out[MOST], in[MOST];

/* One of both sides comes later. */
static void late(int is_late)
{
	if (is_late)
		for (volatile long i = 0; i < 300000; i++)
			;
}

static void check_recv(int length, int room, int source, int tag, int salt)
{
	MPI_Status status;
	int count;
	memset(in, 0, sizeof in);
	CHECK(MPI_Recv(in, room, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
	CHECK(MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS && count == length);
	CHECK(status.MPI_SOURCE == source && (tag == MPI_ANY_TAG || status.MPI_TAG == tag));
	CHECK(holds(in, length, salt) && (length == room || in[length] == 0));
}

static void send_to(int dest, int length, int tag, int salt)
{
	fill(out, length, salt);
	CHECK(MPI_Send(out, length, MPI_BYTE, dest, tag, MPI_COMM_WORLD) == MPI_SUCCESS);
}

/* Lengths of every way that a message can go. */
static void lengths(int later)
{
	static const int all[] = { 0, 1, 8, 31, 32, 33, 64, 200, 256, 300, 5000, 8128, 8129, 20000, 65536, 70000, MOST };
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		if (rank == 0) {
			late(later == 0);
			send_to(1, all[i], ONE, (int)i);
			check_recv(all[i], MOST, 1, MPI_ANY_TAG, (int)i + 1);
		} else if (rank == 1) {
			late(later == 1);
			check_recv(all[i], all[i], 0, ONE, (int)i);
			send_to(0, all[i], OTHER, (int)i + 1);
		}
	}
}

/* The message that is next is another receive's: one of the same rank, one of any rank, one that comes later. */
static void others(int later)
{
	MPI_Request request;
	MPI_Status status;
	if (rank == 1) {
		late(later == 1);
		for (int i = 0; i < 3; i++) {
			send_to(0, 8, OTHER, 1);
			send_to(0, 8, ONE, 2);
			send_to(0, 8, LAST, 3);
		}
	}
	if (rank != 0)
		return;
	late(later == 0);
	/* Nobody has asked for it. */
	check_recv(8, 8, 1, ONE, 2);
	check_recv(8, 8, 1, OTHER, 1);
	check_recv(8, 8, 1, LAST, 3);
	/* A receive of the same rank comes before. */
	MPI_Irecv(out, 8, MPI_BYTE, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
	check_recv(8, 8, 1, MPI_ANY_TAG, 2);
	MPI_Wait(&request, &status);
	CHECK(status.MPI_TAG == OTHER && holds(out, 8, 1));
	check_recv(8, 8, 1, MPI_ANY_TAG, 3);
	/* One of any rank does. */
	MPI_Irecv(out, 8, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
	check_recv(8, 8, 1, ONE, 2);
	MPI_Wait(&request, &status);
	CHECK(status.MPI_TAG == OTHER && status.MPI_SOURCE == 1 && holds(out, 8, 1));
	check_recv(8, 8, 1, MPI_ANY_TAG, 3);
}

/* While this rank waits for one, a third one's messages come, long ones too, and those of a collective that does not block. */
static void third(int later)
{
	MPI_Request requests[2];
	int sum = 0, own = rank;
	if (size < 3)
		return;
	if (rank == 0) {
		MPI_Irecv(out, 70000, MPI_BYTE, 2, ONE, MPI_COMM_WORLD, &requests[0]);
		check_recv(8, 8, 1, ONE, 4);
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
		CHECK(holds(out, 70000, 5));
	} else if (rank == 1) {
		/* Sends only when rank 2 says that rank 0 has taken its long message. */
		check_recv(0, 0, 2, LAST, 0);
		send_to(0, 8, ONE, 4);
	} else if (rank == 2) {
		late(later);
		fill(out, 70000, 5);
		CHECK(MPI_Ssend(out, 70000, MPI_BYTE, 0, ONE, MPI_COMM_WORLD) == MPI_SUCCESS);
		send_to(1, 0, LAST, 0);
	}
	MPI_Iallreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
	if (rank == 0) {
		check_recv(8, 8, 1, ONE, 6);
		MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
	} else {
		/* Comes to its end at all others only if rank 0 takes its part while it waits. */
		MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
		if (rank == 1)
			send_to(0, 8, ONE, 6);
	}
	CHECK(sum == size * (size - 1) / 2);
}

/* A sender that is always ahead does not keep this rank from what a third one sends. */
static void ahead(void)
{
	MPI_Request request;
	MPI_Status status;
	int flag = 0;
	long count = 0;
	if (size < 3)
		return;
	if (rank == 0) {
		MPI_Irecv(out, 70000, MPI_BYTE, 2, ONE, MPI_COMM_WORLD, &request);
		do {
			CHECK(MPI_Recv(in, 8, MPI_BYTE, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
			for (volatile int i = 0; i < 3000; i++)
				;
			CHECK(++count < 2000000);
		} while (status.MPI_TAG != LAST);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		CHECK(holds(out, 70000, 5));
	} else if (rank == 1) {
		for (int sent = 0; !flag; sent++) {
			send_to(0, 8, ONE, 4);
			/* The stream goes on when the third one begins. */
			if (sent == 5000)
				send_to(2, 0, ONE, 0);
			MPI_Iprobe(2, LAST, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		}
		check_recv(0, 0, 2, LAST, 0);
		send_to(0, 8, LAST, 4);
	} else if (rank == 2) {
		check_recv(0, 0, 1, ONE, 0);
		fill(out, 70000, 5);
		CHECK(MPI_Ssend(out, 70000, MPI_BYTE, 0, ONE, MPI_COMM_WORLD) == MPI_SUCCESS);
		send_to(1, 0, LAST, 0);
	}
}

static void too_long(void)
{
	MPI_Status status;
	int count;
	if (rank == 1) {
		send_to(0, 100, ONE, 7);
		send_to(0, 8, ONE, 8);
	}
	if (rank != 0)
		return;
	memset(in, 0, sizeof in);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	CHECK(class_of(MPI_Recv(in, 50, MPI_BYTE, 1, ONE, MPI_COMM_WORLD, &status)) == MPI_ERR_TRUNCATE);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	CHECK(holds(in, 50, 7) && in[50] == 0);
	CHECK(MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS);
	check_recv(8, 8, 1, ONE, 8);
}

/* Both directions at once, round the ranks, with partners who are this rank or nobody, and what cannot be sent at once. */
static void exchanges(void)
{
	static const int all[] = { 0, 8, 100, 300, 8000, 60000, MOST };
	MPI_Status status;
	int right = (rank + 1) % size, left = (rank + size - 1) % size, count;
	for (int i = 0; i < 7 * 20; i++) {
		int length = all[i % 7];
		late((rank + i) % 3 == 0);
		fill(out, length, rank + i);
		CHECK(MPI_Sendrecv(out, length, MPI_BYTE, right, i, in, MOST, MPI_BYTE, left, i, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
		CHECK(MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS && count == length);
		CHECK(status.MPI_SOURCE == left && status.MPI_TAG == i && holds(in, length, left + i));
	}
	CHECK(MPI_Sendrecv(out, 8, MPI_BYTE, MPI_PROC_NULL, 0, in, 8, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
	CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
	/* What is wrong with the receive: nothing is sent. */
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	fill(out, 8, 8);
	CHECK(class_of(MPI_Sendrecv(out, 8, MPI_BYTE, right, 1, in, 8, MPI_BYTE, size, 1, MPI_COMM_WORLD, &status)) == MPI_ERR_RANK);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	fill(out, 8, 9);
	CHECK(MPI_Sendrecv(out, 8, MPI_BYTE, right, 1, in, 8, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
	check_recv(8, 8, left, 1, 9);
}

/* Round and round the block, in any order of two tags. */
static void many(void)
{
	for (int i = 0; i < 20000; i++) {
		int first = (int)any(2), length = some_length(300) % 300;
		if (rank == 1) {
			send_to(0, length, ONE + first, i);
			send_to(0, length / 2, OTHER - first, i + 1);
			if (i % 64 == 0)
				check_recv(4, 4, 0, LAST, i);
		} else if (rank == 0) {
			if (i % 3) {
				check_recv(length, 300, 1, ONE + first, i);
				check_recv(length / 2, 300, 1, OTHER - first, i + 1);
			} else {
				check_recv(length / 2, 300, 1, OTHER - first, i + 1);
				check_recv(length, 300, 1, ONE + first, i);
			}
			if (i % 64 == 0)
				send_to(1, 4, LAST, i);
		}
	}
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	if (size > 1) {
		for (int round = 0; round < 10; round++) {
			lengths(round % 3);
			MPI_Barrier(MPI_COMM_WORLD);
			others(round % 3);
			MPI_Barrier(MPI_COMM_WORLD);
			third(round % 3);
			ahead();
			too_long();
			MPI_Barrier(MPI_COMM_WORLD);
		}
		many();
	}
	exchanges();
	return end("waits");
}
