/*
 * Blocking collectives of all lengths in an order that looks random, the same at all ranks: short ones and those that take several parts of shared memory follow each other, roots run ahead,
 * ranks come late, elements lie with gaps, and what was received is looked at each time.
 */
#include "check.h"
#include "random.h"
#include <sched.h>

enum { LONGEST = 70000, ROUNDS = 1500 };

static unsigned char *out, *in;

static void bcast(MPI_Comm comm, int length, int salt)
{
	int root = (int)any(size), ranks;
	MPI_Comm_size(comm, &ranks);
	root %= ranks;
	int me;
	MPI_Comm_rank(comm, &me);
	if (me == root)
		fill(in, length, salt);
	else
		memset(in, 0, length);
	CHECK(MPI_Bcast(in, length, MPI_BYTE, root, comm) == MPI_SUCCESS);
	CHECK(holds(in, length, salt));
}

static void allreduce(MPI_Comm comm, int length, int salt)
{
	long *from = (long *)out, *to = (long *)in;
	int count = length / 8, me, ranks, in_place = (int)any(3) == 0;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &ranks);
	for (int i = 0; i < count; i++)
		from[i] = to[i] = (long)salt * i + (long)me * (i + 1);
	CHECK(MPI_Allreduce(in_place ? MPI_IN_PLACE : (void *)from, to, count, MPI_LONG, MPI_SUM, comm) == MPI_SUCCESS);
	for (int i = 0; i < count; i++)
		CHECK(to[i] == (long)salt * i * ranks + (long)ranks * (ranks - 1) / 2 * (i + 1));
}

/* `kind`: 0 as it lies, 1 in place, 2 sent from every second byte, 3 received there. */
static void alltoall(MPI_Comm comm, int length, int salt)
{
	int me, ranks, kind = (int)any(4);
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &ranks);
	/* Two lines of the matrix would take the memory of a small machine. */
	if (ranks > 4 && length > 40000)
		length /= 2;
	unsigned char *from = kind == 1 ? in : out;
	MPI_Datatype gaps, type;
	MPI_Type_vector(length, 1, 2, MPI_BYTE, &gaps);
	MPI_Type_create_resized(gaps, 0, 2 * (MPI_Aint)length, &type);
	MPI_Type_commit(&type);
	memset(in, 0, 2 * (size_t)length * ranks);
	for (int rank = 0; rank < ranks; rank++)
		for (int i = 0; i < length; i++)
			from[((size_t)rank * length + i) * (kind == 2 ? 2 : 1)] = pattern(i, salt + me * 31 + rank);
	int code = kind == 1 ? MPI_Alltoall(MPI_IN_PLACE, 0, MPI_BYTE, in, length, MPI_BYTE, comm)
	                     : MPI_Alltoall(out, kind == 2 ? 1 : length, kind == 2 ? type : MPI_BYTE, in, kind == 3 ? 1 : length,
	                                    kind == 3 ? type : MPI_BYTE, comm);
	CHECK(code == MPI_SUCCESS);
	for (int rank = 0; rank < ranks; rank++)
		for (int i = 0; i < length; i++)
			CHECK(in[((size_t)rank * length + i) * (kind == 3 ? 2 : 1)] == pattern(i, salt + rank * 31 + me));
	MPI_Type_free(&gaps);
	MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
	MPI_Comm comms[3];
	begin(&argc, &argv);
	out = malloc(2 * (size_t)LONGEST * (size + 1));
	in = malloc(2 * (size_t)LONGEST * (size + 1));
	CHECK(out && in);
	comms[0] = MPI_COMM_WORLD;
	MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
	/* The same ranks in another order. */
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[2]);
	for (int round = 0; round < ROUNDS; round++) {
		MPI_Comm comm = comms[any(8) < 6 ? 0 : 1 + any(2)];
		int length = some_length(LONGEST), salt = (int)any(1000);
		/* Now and then somebody is late. */
		if ((int)any(4 * size) == rank)
			for (int i = 0; i < 50; i++)
				sched_yield();
		switch (any(7)) {
		case 0:
		case 1:
		case 2:
			bcast(comm, length, salt);
			break;
		case 3:
		case 4:
			allreduce(comm, length, salt);
			break;
		case 5:
			alltoall(comm, length, salt);
			break;
		default:
			MPI_Barrier(comm);
			break;
		}
	}
	for (int i = 1; i < 3; i++)
		MPI_Comm_free(&comms[i]);
	free(out);
	free(in);
	return end("turns");
}
