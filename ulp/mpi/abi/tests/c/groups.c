/* Groups, and the communicators that are made from them. */
#include "check.h"

static void sets(MPI_Group world)
{
	MPI_Group odd, low, both, none, reversed;
	int relation, n, mine;
	int triple[1][3] = {{1, size - 1, 2}};

	CHECK(MPI_Group_size(world, &n) == MPI_SUCCESS && n == size);
	CHECK(MPI_Group_rank(world, &mine) == MPI_SUCCESS && mine == rank);
	if (size > 1)
		CHECK(MPI_Group_range_incl(world, 1, triple, &odd) == MPI_SUCCESS);
	else
		odd = MPI_GROUP_EMPTY;
	CHECK(MPI_Group_size(odd, &n) == MPI_SUCCESS && n == size / 2);
	CHECK(MPI_Group_rank(odd, &mine) == MPI_SUCCESS);
	CHECK(mine == (rank % 2 ? rank / 2 : MPI_UNDEFINED));

	int first = 0;
	CHECK(MPI_Group_incl(world, 1, &first, &low) == MPI_SUCCESS);
	CHECK(MPI_Group_union(odd, low, &both) == MPI_SUCCESS);
	CHECK(MPI_Group_size(both, &n) == MPI_SUCCESS && n == size / 2 + 1);
	/* The second group's ranks come behind the first one's. */
	int at = n - 1, there;
	CHECK(MPI_Group_translate_ranks(both, 1, &at, world, &there) == MPI_SUCCESS && there == 0);
	CHECK(MPI_Group_intersection(odd, low, &none) == MPI_SUCCESS);
	CHECK(MPI_Group_size(none, &n) == MPI_SUCCESS && n == 0);
	CHECK(none == MPI_GROUP_EMPTY);

	int down[1][3] = {{size - 1, 0, -1}};
	CHECK(MPI_Group_range_incl(world, 1, down, &reversed) == MPI_SUCCESS);
	CHECK(MPI_Group_compare(world, reversed, &relation) == MPI_SUCCESS);
	CHECK(relation == (size == 1 ? MPI_IDENT : MPI_SIMILAR));
	int asked[2] = {0, MPI_PROC_NULL}, got[2];
	CHECK(MPI_Group_translate_ranks(world, 2, asked, reversed, got) == MPI_SUCCESS);
	CHECK(got[0] == size - 1 && got[1] == MPI_PROC_NULL);
	CHECK(MPI_Group_compare(world, odd, &relation) == MPI_SUCCESS && relation == MPI_UNEQUAL);

	MPI_Group rest, without;
	CHECK(MPI_Group_difference(world, low, &rest) == MPI_SUCCESS);
	CHECK(MPI_Group_excl(world, 1, &first, &without) == MPI_SUCCESS);
	CHECK(MPI_Group_compare(rest, without, &relation) == MPI_SUCCESS && relation == MPI_IDENT);

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Group bad;
	int twice[2] = {0, 0}, outside = size;
	CHECK(class_of(MPI_Group_incl(world, 2, twice, &bad)) == MPI_ERR_RANK);
	CHECK(class_of(MPI_Group_incl(world, 1, &outside, &bad)) == MPI_ERR_RANK);
	CHECK(class_of(MPI_Group_size(MPI_GROUP_NULL, &n)) == MPI_ERR_GROUP);
	int still[1][3] = {{0, 0, 0}};
	CHECK(class_of(MPI_Group_range_excl(world, 1, still, &bad)) == MPI_ERR_ARG);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);

	MPI_Group *all[] = {&low, &both, &reversed, &rest, &without};
	for (int i = 0; i < 5; i++)
		if (*all[i] != MPI_GROUP_EMPTY)
			CHECK(MPI_Group_free(all[i]) == MPI_SUCCESS && *all[i] == MPI_GROUP_NULL);
	if (odd != MPI_GROUP_EMPTY)
		CHECK(MPI_Group_free(&odd) == MPI_SUCCESS);
}

/* The ranks of a communicator add their world ranks. */
static int sum(MPI_Comm comm)
{
	int all;
	CHECK(MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
	return all;
}

static void splits(void)
{
	MPI_Comm half, turned;
	int n, mine, relation;

	CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half) == MPI_SUCCESS);
	CHECK(MPI_Comm_size(half, &n) == MPI_SUCCESS && n == (size + 1 - rank % 2) / 2);
	CHECK(MPI_Comm_rank(half, &mine) == MPI_SUCCESS && mine == n - 1 - rank / 2);
	int expected = 0;
	for (int i = rank % 2; i < size; i += 2)
		expected += i;
	CHECK(sum(half) == expected);
	/* Messages of one communicator are not the other's. */
	int left = (mine + n - 1) % n, right = (mine + 1) % n, came = -1, number = 100 + mine;
	MPI_Request request;
	CHECK(MPI_Irecv(&came, 1, MPI_INT, MPI_ANY_SOURCE, 5, half, &request) == MPI_SUCCESS);
	int other = -1;
	CHECK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 5, &other, 1, MPI_INT, (rank + size - 1) % size, 5,
			   MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(other == (rank + size - 1) % size);
	CHECK(MPI_Send(&number, 1, MPI_INT, right, 5, half) == MPI_SUCCESS);
	CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && came == 100 + left);

	CHECK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned) == MPI_SUCCESS);
	CHECK(MPI_Comm_compare(MPI_COMM_WORLD, turned, &relation) == MPI_SUCCESS);
	CHECK(relation == (size == 1 ? MPI_CONGRUENT : MPI_SIMILAR));
	CHECK(MPI_Comm_compare(turned, turned, &relation) == MPI_SUCCESS && relation == MPI_IDENT);
	CHECK(MPI_Comm_free(&turned) == MPI_SUCCESS && turned == MPI_COMM_NULL);
	CHECK(MPI_Comm_free(&half) == MPI_SUCCESS);

	MPI_Comm none;
	CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 7 : MPI_UNDEFINED, 0, &none) == MPI_SUCCESS);
	CHECK((none == MPI_COMM_NULL) == (rank != 0));
	if (rank == 0)
		CHECK(MPI_Comm_free(&none) == MPI_SUCCESS);

	MPI_Comm host;
	CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) == MPI_SUCCESS);
	/* There may be two hosts, that have turns. */
	CHECK(MPI_Comm_size(host, &n) == MPI_SUCCESS && (n == size || n == (size + (rank + 1) % 2) / 2));
	CHECK(MPI_Comm_disconnect(&host) == MPI_SUCCESS && host == MPI_COMM_NULL);
	CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &host) == MPI_SUCCESS);
	CHECK(host == MPI_COMM_NULL);
}

static void from_groups(MPI_Group world)
{
	MPI_Group even;
	MPI_Comm made, again;
	int triple[1][3] = {{0, size - 1, 2}}, n;

	CHECK(MPI_Group_range_incl(world, 1, triple, &even) == MPI_SUCCESS);
	CHECK(MPI_Comm_create(MPI_COMM_WORLD, even, &made) == MPI_SUCCESS);
	CHECK((made == MPI_COMM_NULL) == (rank % 2 == 1));
	/* Several groups at once. */
	int own[1][3] = {{rank % 2, size - 1, 2}};
	MPI_Group half;
	CHECK(MPI_Group_range_incl(world, 1, own, &half) == MPI_SUCCESS);
	CHECK(MPI_Comm_create(MPI_COMM_WORLD, half, &again) == MPI_SUCCESS);
	CHECK(MPI_Comm_size(again, &n) == MPI_SUCCESS && n == (size + 1 - rank % 2) / 2);
	CHECK(MPI_Comm_free(&again) == MPI_SUCCESS);
	CHECK(MPI_Group_free(&half) == MPI_SUCCESS);

	if (rank % 2 == 0) {
		int expected = 0;
		for (int i = 0; i < size; i += 2)
			expected += i;
		CHECK(sum(made) == expected);
		/* Only the group's processes call these. */
		for (int tag = 0; tag < 3; tag++) {
			CHECK(MPI_Comm_create_group(MPI_COMM_WORLD, even, tag, &again) == MPI_SUCCESS);
			CHECK(sum(again) == expected);
			CHECK(MPI_Comm_free(&again) == MPI_SUCCESS);
		}
		for (int i = 0; i < 3; i++) {
			CHECK(MPI_Comm_create_from_group(even, "org.example.even", MPI_INFO_NULL, MPI_ERRORS_RETURN,
							 &again) == MPI_SUCCESS);
			CHECK(sum(again) == expected);
			CHECK(MPI_Comm_free(&again) == MPI_SUCCESS);
		}
		CHECK(MPI_Comm_free(&made) == MPI_SUCCESS);
	}
	CHECK(MPI_Group_free(&even) == MPI_SUCCESS);
}

static void duplicates(void)
{
	MPI_Comm copies[3];
	MPI_Request requests[3];
	char name[MPI_MAX_OBJECT_NAME];
	int length, relation;

	CHECK(MPI_Comm_set_name(MPI_COMM_WORLD, "all of us") == MPI_SUCCESS);
	for (int i = 0; i < 3; i++)
		CHECK(MPI_Comm_idup(MPI_COMM_WORLD, &copies[i], &requests[i]) == MPI_SUCCESS);
	CHECK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	for (int i = 0; i < 3; i++) {
		CHECK(sum(copies[i]) == size * (size - 1) / 2);
		CHECK(MPI_Comm_compare(MPI_COMM_WORLD, copies[i], &relation) == MPI_SUCCESS);
		CHECK(relation == MPI_CONGRUENT);
		CHECK(MPI_Comm_get_name(copies[i], name, &length) == MPI_SUCCESS && length == 0 && name[0] == 0);
	}
	CHECK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length) == MPI_SUCCESS);
	CHECK(length == 9 && strcmp(name, "all of us") == 0);

	/* What has begun before a communicator is freed goes on. */
	int came = -1, number = rank;
	MPI_Request receive, send;
	CHECK(MPI_Irecv(&came, 1, MPI_INT, (rank + size - 1) % size, 3, copies[1], &receive) == MPI_SUCCESS);
	MPI_Comm freed = copies[1];
	CHECK(MPI_Isend(&number, 1, MPI_INT, (rank + 1) % size, 3, freed, &send) == MPI_SUCCESS);
	CHECK(MPI_Comm_free(&copies[1]) == MPI_SUCCESS);
	CHECK(MPI_Wait(&receive, MPI_STATUS_IGNORE) == MPI_SUCCESS && came == (rank + size - 1) % size);
	CHECK(MPI_Wait(&send, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(MPI_Comm_free(&copies[0]) == MPI_SUCCESS);
	CHECK(MPI_Comm_free(&copies[2]) == MPI_SUCCESS);

	/* Far more than can be there at once. */
	for (int i = 0; i < 5000; i++) {
		CHECK(MPI_Comm_dup(MPI_COMM_SELF, &copies[0]) == MPI_SUCCESS);
		CHECK(MPI_Comm_free(&copies[0]) == MPI_SUCCESS);
	}
}

int main(int argc, char **argv)
{
	MPI_Group world;

	begin(&argc, &argv);
	CHECK(MPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS);
	sets(world);
	splits();
	from_groups(world);
	duplicates();
	CHECK(MPI_Group_free(&world) == MPI_SUCCESS);
	return end("groups");
}
