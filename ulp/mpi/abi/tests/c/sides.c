/* Inter-communicators: how they are made, and messages between their sides. */
#include "check.h"

/* A message to each rank of the other side, and one from each. */
static void talk(MPI_Comm inter)
{
	int mine, others;
	CHECK(MPI_Comm_rank(inter, &mine) == MPI_SUCCESS);
	CHECK(MPI_Comm_remote_size(inter, &others) == MPI_SUCCESS);
	int sent[8], came[8];
	MPI_Request requests[16];
	for (int i = 0; i < others; i++) {
		came[i] = -1;
		sent[i] = 100 * mine + i;
		CHECK(MPI_Irecv(&came[i], 1, MPI_INT, i, 9, inter, &requests[i]) == MPI_SUCCESS);
	}
	for (int i = 0; i < others; i++)
		CHECK(MPI_Isend(&sent[i], 1, MPI_INT, i, 9, inter, &requests[others + i]) == MPI_SUCCESS);
	CHECK(MPI_Waitall(2 * others, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	for (int i = 0; i < others; i++)
		CHECK(came[i] == 100 * i + mine);
	/* Who sends is named by the rank there. */
	int big[3000], back[3000];
	for (int i = 0; i < 3000; i++)
		big[i] = i + mine;
	if (mine == 0) {
		MPI_Status status;
		CHECK(MPI_Isend(big, 3000, MPI_INT, 0, 1, inter, &requests[0]) == MPI_SUCCESS);
		CHECK(MPI_Recv(back, 3000, MPI_INT, MPI_ANY_SOURCE, 1, inter, &status) == MPI_SUCCESS);
		CHECK(status.MPI_SOURCE == 0 && back[2999] == 2999);
		CHECK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE) == MPI_SUCCESS);
	}
}

/* What one side puts in comes out at the other. */
static void together(MPI_Comm inter, int side)
{
	int own, mine, others, in[8], out[8], sum, expected = 0;
	CHECK(MPI_Comm_size(inter, &own) == MPI_SUCCESS);
	CHECK(MPI_Comm_rank(inter, &mine) == MPI_SUCCESS);
	CHECK(MPI_Comm_remote_size(inter, &others) == MPI_SUCCESS);
	for (int i = 0; i < others; i++)
		expected += 2 * i + 1 - side;
	CHECK(MPI_Barrier(inter) == MPI_SUCCESS);
	CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter) == MPI_SUCCESS && sum == expected);
	CHECK(MPI_Allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, inter) == MPI_SUCCESS);
	for (int i = 0; i < others; i++)
		CHECK(in[i] == 2 * i + 1 - side);
	for (int i = 0; i < others; i++)
		out[i] = 100 * mine + i;
	CHECK(MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, inter) == MPI_SUCCESS);
	for (int i = 0; i < others; i++)
		CHECK(in[i] == 100 * i + mine);
	for (int from = 0; from < 2; from++) {
		/* The last of a side is the root. */
		int last = (from == side ? own : others) - 1;
		int root = from != side ? last : mine == last ? MPI_ROOT : MPI_PROC_NULL;
		int number = root == MPI_ROOT ? 77 : -1;
		CHECK(MPI_Bcast(&number, 1, MPI_INT, root, inter) == MPI_SUCCESS);
		CHECK(number == (root == MPI_PROC_NULL ? -1 : 77));
		sum = -1;
		CHECK(MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, root, inter) == MPI_SUCCESS);
		CHECK(sum == (root == MPI_ROOT ? expected : -1));
		CHECK(MPI_Gather(&rank, 1, MPI_INT, in, 1, MPI_INT, root, inter) == MPI_SUCCESS);
		for (int i = 0; root == MPI_ROOT && i < others; i++)
			CHECK(in[i] == 2 * i + 1 - side);
		CHECK(MPI_Scatter(out, 1, MPI_INT, &number, 1, MPI_INT, root, inter) == MPI_SUCCESS);
		if (root >= 0)
			CHECK(number == 100 * root + mine);
	}
	MPI_Request request;
	CHECK(MPI_Ibarrier(inter, &request) == MPI_SUCCESS);
	CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
	MPI_Comm half, inter, copy, merged, part;
	int flag, relation, n, mine;

	begin(&argc, &argv);
	int side = rank % 2;
	if (size == 1)
		return end("sides");
	CHECK(MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half) == MPI_SUCCESS);
	CHECK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 12, &inter) == MPI_SUCCESS);
	CHECK(MPI_Comm_test_inter(inter, &flag) == MPI_SUCCESS && flag);
	CHECK(MPI_Comm_test_inter(half, &flag) == MPI_SUCCESS && !flag);
	CHECK(MPI_Comm_remote_size(inter, &n) == MPI_SUCCESS && n == (size + side) / 2);
	talk(inter);
	together(inter, side);

	MPI_Group own, theirs, both;
	CHECK(MPI_Comm_group(inter, &own) == MPI_SUCCESS);
	CHECK(MPI_Comm_remote_group(inter, &theirs) == MPI_SUCCESS);
	CHECK(MPI_Group_union(own, theirs, &both) == MPI_SUCCESS);
	CHECK(MPI_Group_size(both, &n) == MPI_SUCCESS && n == size);

	CHECK(MPI_Comm_dup(inter, &copy) == MPI_SUCCESS);
	CHECK(MPI_Comm_compare(inter, copy, &relation) == MPI_SUCCESS && relation == MPI_CONGRUENT);
	talk(copy);
	together(copy, side);
	MPI_Request request;
	CHECK(MPI_Comm_free(&copy) == MPI_SUCCESS);
	CHECK(MPI_Comm_idup(inter, &copy, &request) == MPI_SUCCESS);
	CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	talk(copy);
	CHECK(MPI_Comm_free(&copy) == MPI_SUCCESS);

	for (int high = 0; high < 2; high++) {
		CHECK(MPI_Intercomm_merge(inter, side == high, &merged) == MPI_SUCCESS);
		CHECK(MPI_Comm_size(merged, &n) == MPI_SUCCESS && n == size);
		CHECK(MPI_Comm_rank(merged, &mine) == MPI_SUCCESS);
		CHECK(mine == rank / 2 + (side != high ? 0 : high ? (size + 1) / 2 : size / 2));
		int sum, expected = size * (size - 1) / 2;
		CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged) == MPI_SUCCESS && sum == expected);
		CHECK(MPI_Comm_free(&merged) == MPI_SUCCESS);
	}

	/* One pair of each side; ranks without a partner get nothing. */
	CHECK(MPI_Comm_split(inter, rank / 2, 0, &part) == MPI_SUCCESS);
	int has_partner = rank / 2 < size / 2;
	CHECK((part != MPI_COMM_NULL) == has_partner);
	if (has_partner) {
		CHECK(MPI_Comm_remote_size(part, &n) == MPI_SUCCESS && n == 1);
		talk(part);
		CHECK(MPI_Comm_free(&part) == MPI_SUCCESS);
	}
	int zero = 0;
	MPI_Group leaders;
	CHECK(MPI_Group_incl(own, 1, &zero, &leaders) == MPI_SUCCESS);
	CHECK(MPI_Comm_create(inter, leaders, &part) == MPI_SUCCESS);
	CHECK((part != MPI_COMM_NULL) == (rank < 2));
	if (rank < 2) {
		talk(part);
		CHECK(MPI_Comm_free(&part) == MPI_SUCCESS);
	}
	CHECK(MPI_Intercomm_create_from_groups(own, 0, theirs, 0, "org.example.sides", MPI_INFO_NULL,
					       MPI_ERRORS_ARE_FATAL, &copy) == MPI_SUCCESS);
	talk(copy);
	CHECK(MPI_Comm_disconnect(&copy) == MPI_SUCCESS);
	CHECK(MPI_Group_free(&leaders) == MPI_SUCCESS);
	CHECK(MPI_Group_free(&own) == MPI_SUCCESS);
	CHECK(MPI_Group_free(&theirs) == MPI_SUCCESS);
	CHECK(MPI_Group_free(&both) == MPI_SUCCESS);
	CHECK(MPI_Comm_free(&half) == MPI_SUCCESS);
	CHECK(MPI_Comm_free(&inter) == MPI_SUCCESS);
	return end("sides");
}
