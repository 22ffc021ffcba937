/* The collectives, of short and long data, on the world and on copies of it. */
#include "check.h"

static void run(MPI_Comm comm, int count)
{
	int *out = malloc((size_t)size * count * sizeof(int)), *in = malloc((size_t)size * count * sizeof(int));
	for (int root = 0; root < size; root++) {
		for (int i = 0; i < count; i++)
			out[i] = rank == root ? root * 1000 + i : -1;
		MPI_Bcast(out, count, MPI_INT, root, comm);
		for (int i = 0; i < count; i++)
			CHECK(out[i] == root * 1000 + i);

		for (int i = 0; i < count; i++)
			out[i] = rank * 7 + i;
		MPI_Gather(out, count, MPI_INT, in, count, MPI_INT, root, comm);
		for (int i = 0; rank == root && i < size * count; i++)
			CHECK(in[i] == i / count * 7 + i % count);
		/* What was gathered goes back; at the root it stays in place. */
		memset(out, 0, count * sizeof(int));
		MPI_Scatter(in, count, MPI_INT, rank == root ? MPI_IN_PLACE : (void *)out, count, MPI_INT, root, comm);
		for (int i = 0; rank != root && i < count; i++)
			CHECK(out[i] == rank * 7 + i);
	}
	for (int i = 0; i < count; i++)
		out[i] = rank * 3 + i;
	MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, comm);
	for (int i = 0; i < size * count; i++)
		CHECK(in[i] == i / count * 3 + i % count);
	for (int i = 0; i < size * count; i++)
		out[i] = rank * 100 + i / count;
	MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, comm);
	for (int i = 0; i < size * count; i++)
		CHECK(in[i] == i / count * 100 + rank);
	MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, out, count, MPI_INT, comm);
	for (int i = 0; i < size * count; i++)
		CHECK(out[i] == i / count * 100 + rank);
	for (int i = 0; i < count; i++)
		out[i] = rank + i;
	for (int root = 0; root < size; root++) {
		MPI_Reduce(out, rank == root ? (void *)in : NULL, count, MPI_INT, MPI_SUM, root, comm);
		for (int i = 0; rank == root && i < count; i++)
			CHECK(in[i] == size * (size - 1) / 2 + size * i);
	}
	MPI_Allreduce(out, in, count, MPI_INT, MPI_MAX, comm);
	for (int i = 0; i < count; i++)
		CHECK(in[i] == size - 1 + i);
	MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_INT, MPI_MIN, comm);
	for (int i = 0; i < count; i++)
		CHECK(out[i] == i);
	free(out);
	free(in);
}

/* A pair with a gap between its parts, and what does not go together. */
static void pairs_and_errors(void)
{
	struct { double value; int at; } mine = { (rank * 5 + 3) % size, rank }, best;
	int value = 1;
	double part = 1.5, sum;
	MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
	CHECK((best.at * 5 + 3) % size == best.value);
	for (int other = 0; other < size; other++)
		CHECK((other * 5 + 3) % size <= best.value && ((other * 5 + 3) % size < best.value || best.at <= other));
	MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	CHECK(sum == 1.5 * size);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	CHECK(class_of(MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD)) == MPI_ERR_OP);
	CHECK(class_of(MPI_Allreduce(&value, &value, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD)) == MPI_ERR_OP);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
	MPI_Comm copies[20];
	int result, other;
	begin(&argc, &argv);
	for (int i = 0; i < 100; i++)
		MPI_Barrier(MPI_COMM_WORLD);
	run(MPI_COMM_WORLD, 1);
	run(MPI_COMM_WORLD, 5000);
	for (int i = 0; i < 20; i++)
		CHECK(MPI_Comm_dup(i ? copies[i - 1] : MPI_COMM_WORLD, &copies[i]) == MPI_SUCCESS);
	MPI_Comm_compare(copies[3], copies[3], &result);
	CHECK(result == MPI_IDENT);
	MPI_Comm_compare(copies[3], MPI_COMM_WORLD, &result);
	CHECK(result == MPI_CONGRUENT);
	/* A message of one communicator is not received on another. */
	if (size > 1 && rank < 2) {
		int one = 1, two = 2, got;
		MPI_Request request;
		other = 1 - rank;
		MPI_Isend(&one, 1, MPI_INT, other, 0, copies[1], &request);
		MPI_Send(&two, 1, MPI_INT, other, 0, copies[2]);
		MPI_Recv(&got, 1, MPI_INT, other, 0, copies[2], MPI_STATUS_IGNORE);
		CHECK(got == 2);
		MPI_Recv(&got, 1, MPI_INT, other, 0, copies[1], MPI_STATUS_IGNORE);
		CHECK(got == 1);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	run(copies[19], 10);
	pairs_and_errors();
	for (int i = 0; i < 20; i++) {
		CHECK(MPI_Comm_free(&copies[i]) == MPI_SUCCESS && copies[i] == MPI_COMM_NULL);
	}
	CHECK(MPI_Comm_size(MPI_COMM_SELF, &result) == MPI_SUCCESS && result == 1);
	return end("collectives");
}
