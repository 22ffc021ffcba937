/* Collectives of ranks that share memory: many of each in a row without anything between them, roots that go round, vectors as long as a slot and longer, and more
 * communicators than there is shared memory for, freed in another order than they were made. */
#include "check.h"

enum { LONGEST = 15000, ROUNDS = 60 };

static int mine[LONGEST * 8], theirs[LONGEST * 8], in_place[LONGEST];

static int value(int who, int at, int round)
{
	return who * 1000003 + at * 7 + round;
}

static void some(MPI_Comm comm, int length, int round)
{
	int me, ranks;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &ranks);
	int root = round % ranks;
	long sum = 0;
	for (int who = 0; who < ranks; who++)
		sum += value(who, 0, round);

	for (int at = 0; at < length; at++)
		mine[at] = me == root ? value(root, at, round) : -1;
	CHECK(MPI_Bcast(mine, length, MPI_INT, root, comm) == MPI_SUCCESS);
	for (int at = 0; at < length; at++)
		CHECK(mine[at] == value(root, at, round));

	for (int at = 0; at < length; at++)
		mine[at] = value(me, at, round) % 1000;
	memset(theirs, 0, length * sizeof(int));
	CHECK(MPI_Allreduce(mine, theirs, length, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
	for (int at = 0; at < length; at++) {
		int right = 0;
		for (int who = 0; who < ranks; who++)
			right += value(who, at, round) % 1000;
		CHECK(theirs[at] == right);
	}
	memcpy(in_place, mine, length * sizeof(int));
	CHECK(MPI_Allreduce(MPI_IN_PLACE, in_place, length, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
	CHECK(memcmp(in_place, theirs, length * sizeof(int)) == 0);
	CHECK(MPI_Reduce(me == root ? MPI_IN_PLACE : mine, mine, length, MPI_INT, MPI_SUM, root, comm) == MPI_SUCCESS);
	if (me == root)
		CHECK(memcmp(mine, theirs, length * sizeof(int)) == 0);

	int block = length / ranks;
	for (int to = 0; to < ranks; to++)
		for (int at = 0; at < block; at++)
			mine[to * block + at] = value(me * 100 + to, at, round);
	CHECK(MPI_Alltoall(mine, block, MPI_INT, theirs, block, MPI_INT, comm) == MPI_SUCCESS);
	for (int from = 0; from < ranks; from++)
		for (int at = 0; at < block; at++)
			CHECK(theirs[from * block + at] == value(from * 100 + me, at, round));

	CHECK(MPI_Allgather(mine, block, MPI_INT, theirs, block, MPI_INT, comm) == MPI_SUCCESS);
	for (int from = 0; from < ranks; from++)
		for (int at = 0; at < block; at++)
			CHECK(theirs[from * block + at] == value(from * 100, at, round));

	long own = value(me, 0, round), all = 0;
	CHECK(MPI_Scan(&own, &all, 1, MPI_LONG, MPI_SUM, comm) == MPI_SUCCESS);
	long right = 0;
	for (int who = 0; who <= me; who++)
		right += value(who, 0, round);
	CHECK(all == right);
	if (round % 3 == 0)
		CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
	CHECK(MPI_Gather(&own, 1, MPI_LONG, theirs, 1, MPI_LONG, root, comm) == MPI_SUCCESS);
	if (me == root)
		for (int who = 0; who < ranks; who++)
			CHECK(((long *)theirs)[who] == value(who, 0, round));
	CHECK(MPI_Scatter(theirs, 1, MPI_LONG, &own, 1, MPI_LONG, root, comm) == MPI_SUCCESS);
	CHECK(own == value(me, 0, round));
	CHECK(MPI_Allreduce(MPI_IN_PLACE, &own, 1, MPI_LONG, MPI_SUM, comm) == MPI_SUCCESS);
	CHECK(own == sum);
}

int main(int argc, char **argv)
{
	enum { MANY = 7 };
	MPI_Comm comms[MANY];
	begin(&argc, &argv);
	for (int round = 0; round < ROUNDS; round++)
		some(MPI_COMM_WORLD, round % 10 == 9 ? LONGEST - round / 10 * 1999 : round * 11 % 500, round);
	/* One collective after the other by a single root, which runs ahead, and then by another. */
	for (int round = 0; round < 3 * ROUNDS; round++) {
		int root = round / ROUNDS % size, word = rank == root ? round : -1;
		MPI_Bcast(&word, 1, MPI_INT, root, MPI_COMM_WORLD);
		CHECK(word == round);
	}
	/* Reductions, whose other ranks run ahead of the root; in place its operand is read late. */
	for (int round = 0; round < 3 * ROUNDS; round++) {
		int root = round / ROUNDS % size, length = round % 7 == 6 ? LONGEST : 1 + round % 300;
		for (int at = 0; at < length; at++)
			mine[at] = value(rank, at, round) % 1000;
		int *from = rank == root && round % 2 ? MPI_IN_PLACE : mine, *to = from == mine ? theirs : mine;
		CHECK(MPI_Reduce(from, to, length, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD) == MPI_SUCCESS);
		for (int at = 0; rank == root && at < length; at++) {
			int right = 0;
			for (int who = 0; who < size; who++)
				right += value(who, at, round) % 1000;
			CHECK(to[at] == right);
		}
	}
	/* What does not block is over in any order beside what does. */
	for (int round = 0; round < ROUNDS; round++) {
		MPI_Request requests[2];
		long one = rank, sum = 0, last = rank;
		MPI_Iallreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
		MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]);
		MPI_Bcast(&last, 1, MPI_LONG, size - 1, MPI_COMM_WORLD);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		CHECK(sum == (long)size * (size - 1) / 2 && last == size - 1);
	}
	for (int again = 0; again < 3; again++) {
		for (int i = 0; i < MANY; i++) {
			/* The last rank is rank 0 of every other one. */
			MPI_Comm_split(MPI_COMM_WORLD, i % 3 == 2 ? rank % 2 : 0, i % 2 ? -rank : rank, &comms[i]);
			some(comms[i], 40 + i, again);
		}
		for (int i = 0; i < MANY; i++) {
			some(comms[i], 100, i);
			if ((i + again) % 2)
				MPI_Comm_free(&comms[i]);
		}
		for (int i = 0; i < MANY; i++)
			if (comms[i] != MPI_COMM_NULL)
				MPI_Comm_free(&comms[i]);
	}
	return end("together");
}
