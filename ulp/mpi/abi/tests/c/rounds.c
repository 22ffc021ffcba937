/* Persistent collectives: several on one communicator, begun in another order on each rank, many rounds, with new values in the same buffers. */
#include "check.h"

#define ROUNDS 20
#define MOST 16
#define COUNT 300

enum { BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE, ALLREDUCE, SCAN, EXSCAN, SCATTERED, VECTOR, KINDS };

static int out[KINDS][MOST * COUNT], in[KINDS][MOST * COUNT];

static int value(int who, int kind, int round, int at)
{
	return who * 1000 + kind * 31 + round * 7 + at;
}

int main(int argc, char **argv)
{
	MPI_Request requests[KINDS];
	MPI_Status statuses[KINDS];
	int counts[MOST], places[MOST], sum;
	begin(&argc, &argv);
	CHECK(size <= MOST);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	int root = size / 2;
	for (int i = 0; i < size; i++) {
		counts[i] = COUNT - i;
		places[i] = i * COUNT;
	}
	MPI_Info info = MPI_INFO_NULL;
	MPI_Comm comm = MPI_COMM_WORLD;
	MPI_Barrier_init(comm, info, &requests[BARRIER]);
	MPI_Bcast_init(in[BCAST], COUNT, MPI_INT, root, comm, info, &requests[BCAST]);
	MPI_Gather_init(out[GATHER], COUNT, MPI_INT, in[GATHER], COUNT, MPI_INT, root, comm, info, &requests[GATHER]);
	MPI_Scatter_init(out[SCATTER], COUNT, MPI_INT, in[SCATTER], COUNT, MPI_INT, root, comm, info, &requests[SCATTER]);
	MPI_Allgather_init(out[ALLGATHER], COUNT, MPI_INT, in[ALLGATHER], COUNT, MPI_INT, comm, info, &requests[ALLGATHER]);
	MPI_Alltoall_init(out[ALLTOALL], COUNT, MPI_INT, in[ALLTOALL], COUNT, MPI_INT, comm, info, &requests[ALLTOALL]);
	MPI_Reduce_init(out[REDUCE], in[REDUCE], COUNT, MPI_INT, MPI_SUM, root, comm, info, &requests[REDUCE]);
	MPI_Allreduce_init(out[ALLREDUCE], in[ALLREDUCE], COUNT, MPI_INT, MPI_MAX, comm, info, &requests[ALLREDUCE]);
	MPI_Scan_init(out[SCAN], in[SCAN], COUNT, MPI_INT, MPI_SUM, comm, info, &requests[SCAN]);
	MPI_Exscan_init(out[EXSCAN], in[EXSCAN], COUNT, MPI_INT, MPI_SUM, comm, info, &requests[EXSCAN]);
	MPI_Reduce_scatter_block_init(out[SCATTERED], in[SCATTERED], COUNT, MPI_INT, MPI_SUM, comm, info, &requests[SCATTERED]);
	MPI_Allgatherv_init(out[VECTOR], counts[rank], MPI_INT, in[VECTOR], counts, places, MPI_INT, comm, info, &requests[VECTOR]);
	/* The arrays are the program's again. */
	memset(counts, 0xff, sizeof counts);
	memset(places, 0xff, sizeof places);
	MPI_Waitall(KINDS, requests, statuses);
	for (int round = 0; round < ROUNDS; round++) {
		memset(in, 0xee, sizeof in);
		for (int kind = 0; kind < KINDS; kind++)
			for (int i = 0; i < size * COUNT; i++)
				out[kind][i] = value(rank, kind, round, i);
		if (rank == root)
			memcpy(in[BCAST], out[BCAST], COUNT * sizeof(int));
		for (int i = 0; i < KINDS; i++)
			CHECK(MPI_Start(&requests[(i * 5 + rank + round) % KINDS]) == MPI_SUCCESS);
		CHECK(class_of(MPI_Start(&requests[round % KINDS])) == MPI_ERR_REQUEST);
		CHECK(MPI_Waitall(KINDS, requests, statuses) == MPI_SUCCESS);
		for (int i = 0; i < COUNT; i++) {
			CHECK(in[BCAST][i] == value(root, BCAST, round, i));
			CHECK(in[SCATTER][i] == value(root, SCATTER, round, rank * COUNT + i));
			CHECK(in[ALLREDUCE][i] == value(size - 1, ALLREDUCE, round, i));
			sum = 0;
			for (int who = 0; who < rank; who++)
				sum += value(who, EXSCAN, round, i);
			CHECK(rank == 0 || in[EXSCAN][i] == sum);
			sum = 0;
			for (int who = 0; who <= rank; who++)
				sum += value(who, SCAN, round, i);
			CHECK(in[SCAN][i] == sum);
			sum = 0;
			for (int who = 0; who < size; who++)
				sum += value(who, REDUCE, round, i);
			CHECK(rank != root || in[REDUCE][i] == sum);
			sum = 0;
			for (int who = 0; who < size; who++)
				sum += value(who, SCATTERED, round, rank * COUNT + i);
			CHECK(in[SCATTERED][i] == sum);
			for (int who = 0; who < size; who++) {
				CHECK(rank != root || in[GATHER][who * COUNT + i] == value(who, GATHER, round, i));
				CHECK(in[ALLGATHER][who * COUNT + i] == value(who, ALLGATHER, round, i));
				CHECK(in[ALLTOALL][who * COUNT + i] == value(who, ALLTOALL, round, rank * COUNT + i));
				CHECK(i >= COUNT - who || in[VECTOR][who * COUNT + i] == value(who, VECTOR, round, i));
			}
		}
	}
	for (int i = 0; i < KINDS; i++)
		CHECK(MPI_Request_free(&requests[i]) == MPI_SUCCESS && requests[i] == MPI_REQUEST_NULL);
	return end("rounds");
}
