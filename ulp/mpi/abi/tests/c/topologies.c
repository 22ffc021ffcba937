/* Grids and graphs, and collectives along their edges. */
#include "check.h"

static void grids(void)
{
	int dims[2] = {0, 0}, periods[2] = {1, 0}, here[2], rank_there, n, kind;
	MPI_Comm grid, row;

	CHECK(MPI_Dims_create(size, 2, dims) == MPI_SUCCESS && dims[0] * dims[1] == size && dims[0] >= dims[1]);
	CHECK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid) == MPI_SUCCESS);
	CHECK(MPI_Topo_test(grid, &kind) == MPI_SUCCESS && kind == MPI_CART);
	CHECK(MPI_Cartdim_get(grid, &n) == MPI_SUCCESS && n == 2);
	CHECK(MPI_Cart_coords(grid, rank, 2, here) == MPI_SUCCESS);
	CHECK(here[0] == rank / dims[1] && here[1] == rank % dims[1]);
	here[0] -= dims[0];
	CHECK(MPI_Cart_rank(grid, here, &rank_there) == MPI_SUCCESS && rank_there == rank);
	int got_dims[2], got_periods[2], got_here[2];
	CHECK(MPI_Cart_get(grid, 2, got_dims, got_periods, got_here) == MPI_SUCCESS);
	CHECK(got_dims[0] == dims[0] && got_dims[1] == dims[1] && got_periods[0] && !got_periods[1]);

	int source, dest;
	CHECK(MPI_Cart_shift(grid, 1, 1, &source, &dest) == MPI_SUCCESS);
	CHECK(source == (rank % dims[1] == 0 ? MPI_PROC_NULL : rank - 1));
	CHECK(dest == (rank % dims[1] == dims[1] - 1 ? MPI_PROC_NULL : rank + 1));
	CHECK(MPI_Cart_shift(grid, 0, 1, &source, &dest) == MPI_SUCCESS);
	CHECK(dest == (rank + dims[1]) % size && source == (rank + size - dims[1]) % size);

	/* What is sent downwards comes from above, with one or two processes in a ring, too. */
	int out[4], in[4] = {-1, -1, -1, -1}, low, high;
	for (int i = 0; i < 4; i++)
		out[i] = 10 * rank + i;
	CHECK(MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, grid) == MPI_SUCCESS);
	for (int d = 0; d < 2; d++) {
		CHECK(MPI_Cart_shift(grid, d, 1, &low, &high) == MPI_SUCCESS);
		CHECK(in[2 * d] == (low == MPI_PROC_NULL ? -1 : 10 * low + 2 * d + 1));
		CHECK(in[2 * d + 1] == (high == MPI_PROC_NULL ? -1 : 10 * high + 2 * d));
	}
	MPI_Request request;
	int all[4] = {-1, -1, -1, -1};
	CHECK(MPI_Ineighbor_allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, grid, &request) == MPI_SUCCESS);
	CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(all[0] == source && all[1] == dest);

	/* The same, twice with one request. */
	CHECK(MPI_Neighbor_allgather_init(&rank, 1, MPI_INT, all, 1, MPI_INT, grid, MPI_INFO_NULL, &request) ==
	      MPI_SUCCESS);
	for (int i = 0; i < 2; i++) {
		all[0] = all[1] = -1;
		CHECK(MPI_Start(&request) == MPI_SUCCESS);
		CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		CHECK(all[0] == source && all[1] == dest);
	}
	CHECK(MPI_Request_free(&request) == MPI_SUCCESS);

	int keep[2] = {0, 1};
	CHECK(MPI_Cart_sub(grid, keep, &row) == MPI_SUCCESS);
	CHECK(MPI_Comm_size(row, &n) == MPI_SUCCESS && n == dims[1]);
	CHECK(MPI_Cartdim_get(row, &n) == MPI_SUCCESS && n == 1);
	CHECK(MPI_Cart_coords(row, rank % dims[1], 1, here) == MPI_SUCCESS && here[0] == rank % dims[1]);
	CHECK(MPI_Comm_free(&row) == MPI_SUCCESS);
	CHECK(MPI_Comm_dup(grid, &row) == MPI_SUCCESS);
	CHECK(MPI_Topo_test(row, &kind) == MPI_SUCCESS && kind == MPI_CART);
	CHECK(MPI_Comm_free(&row) == MPI_SUCCESS);
	CHECK(MPI_Comm_free(&grid) == MPI_SUCCESS);

	int one = 1, zero = 0;
	CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, &one, &zero, 1, &grid) == MPI_SUCCESS);
	CHECK((grid == MPI_COMM_NULL) == (rank > 0));
	if (rank == 0)
		CHECK(MPI_Comm_free(&grid) == MPI_SUCCESS);
	CHECK(MPI_Topo_test(MPI_COMM_WORLD, &kind) == MPI_SUCCESS && kind == MPI_UNDEFINED);
}

/* Each process is next to the one before and the one behind it. */
static void graphs(void)
{
	int *index = malloc(size * sizeof *index), *edges = malloc(2 * size * sizeof *edges);
	int n, m, kind, next[2];
	MPI_Comm ring;

	for (int i = 0; i < size; i++) {
		index[i] = 2 * (i + 1);
		edges[2 * i] = (i + size - 1) % size;
		edges[2 * i + 1] = (i + 1) % size;
	}
	CHECK(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &ring) == MPI_SUCCESS);
	CHECK(MPI_Topo_test(ring, &kind) == MPI_SUCCESS && kind == MPI_GRAPH);
	CHECK(MPI_Graphdims_get(ring, &n, &m) == MPI_SUCCESS && n == size && m == 2 * size);
	CHECK(MPI_Graph_neighbors_count(ring, rank, &n) == MPI_SUCCESS && n == 2);
	CHECK(MPI_Graph_neighbors(ring, rank, 2, next) == MPI_SUCCESS);
	CHECK(next[0] == (rank + size - 1) % size && next[1] == (rank + 1) % size);
	int in[2] = {-1, -1};
	CHECK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, ring) == MPI_SUCCESS);
	CHECK(in[0] == next[0] && in[1] == next[1]);
	CHECK(MPI_Comm_free(&ring) == MPI_SUCCESS);
	free(index);
	free(edges);
}

/* A constant that is an address where nothing lies: compilers warn of it. */
static int *volatile no_weights = MPI_UNWEIGHTED;

static void check_distributed(MPI_Comm comm, int weight)
{
	int in, out, weighted, source = -1, dest = -1, source_weight = -1, dest_weight = -1, kind;

	CHECK(MPI_Topo_test(comm, &kind) == MPI_SUCCESS && kind == MPI_DIST_GRAPH);
	CHECK(MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted) == MPI_SUCCESS);
	CHECK(in == 1 && out == 1 && !weighted == !weight);
	CHECK(MPI_Dist_graph_neighbors(comm, 1, &source, weight ? &source_weight : no_weights, 1, &dest,
				       weight ? &dest_weight : no_weights) == MPI_SUCCESS);
	CHECK(source == (rank + size - 1) % size && dest == (rank + 1) % size);
	if (weight)
		CHECK(source_weight == weight + source && dest_weight == weight + rank);
	int came = -1, counts = 1, displacement = 0;
	MPI_Aint at = 0;
	MPI_Datatype type = MPI_INT;
	CHECK(MPI_Neighbor_alltoallv(&rank, &counts, &displacement, MPI_INT, &came, &counts, &displacement, MPI_INT,
				     comm) == MPI_SUCCESS);
	CHECK(came == source);
	came = -1;
	CHECK(MPI_Neighbor_alltoallw(&rank, &counts, &at, &type, &came, &counts, &at, &type, comm) == MPI_SUCCESS);
	CHECK(came == source);
	came = -1;
	CHECK(MPI_Neighbor_allgatherv(&rank, 1, MPI_INT, &came, &counts, &displacement, MPI_INT, comm) == MPI_SUCCESS);
	CHECK(came == source);
}

static void distributed(void)
{
	int before = (rank + size - 1) % size, behind = (rank + 1) % size, one = 1;
	int in_weight = 5 + before, out_weight = 5 + rank;
	MPI_Comm ring;

	CHECK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, &in_weight, 1, &behind, &out_weight,
					     MPI_INFO_NULL, 0, &ring) == MPI_SUCCESS);
	check_distributed(ring, 5);
	CHECK(MPI_Comm_free(&ring) == MPI_SUCCESS);
	CHECK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, no_weights, 1, &behind, no_weights,
					     MPI_INFO_NULL, 0, &ring) == MPI_SUCCESS);
	check_distributed(ring, 0);
	CHECK(MPI_Comm_free(&ring) == MPI_SUCCESS);
	/* Each tells the edge of the next process. */
	int far = (behind + 1) % size, weight = 7 + behind;
	CHECK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &behind, &one, &far, &weight, MPI_INFO_NULL, 0, &ring) ==
	      MPI_SUCCESS);
	check_distributed(ring, 7);
	CHECK(MPI_Comm_free(&ring) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	grids();
	graphs();
	distributed();
	return end("topologies");
}
