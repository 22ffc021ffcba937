/* Datatypes: made, asked about, packed; what a program that was compiled against mpi.h sees of them. */
#include "check.h"

static void bounds(void)
{
	MPI_Datatype vector, resized, mixed, types[2] = {MPI_CHAR, MPI_DOUBLE};
	int size, blocks[2] = {1, 2};
	MPI_Aint lb, extent, places[2] = {0, 8};

	CHECK(MPI_Type_vector(3, 2, 4, MPI_INT, &vector) == MPI_SUCCESS);
	CHECK(MPI_Type_size(vector, &size) == MPI_SUCCESS && size == 24);
	CHECK(MPI_Type_get_extent(vector, &lb, &extent) == MPI_SUCCESS && lb == 0 && extent == 40);
	CHECK(MPI_Type_create_resized(vector, -8, 64, &resized) == MPI_SUCCESS);
	CHECK(MPI_Type_get_extent(resized, &lb, &extent) == MPI_SUCCESS && lb == -8 && extent == 64);
	CHECK(MPI_Type_get_true_extent(resized, &lb, &extent) == MPI_SUCCESS && lb == 0 && extent == 40);
	CHECK(MPI_Type_create_struct(2, blocks, places, types, &mixed) == MPI_SUCCESS);
	CHECK(MPI_Type_get_extent(mixed, &lb, &extent) == MPI_SUCCESS && extent == 24);
	CHECK(MPI_Type_free(&vector) == MPI_SUCCESS && vector == MPI_DATATYPE_NULL);
	CHECK(MPI_Type_free(&resized) == MPI_SUCCESS);
	CHECK(MPI_Type_free(&mixed) == MPI_SUCCESS);
}

/* What a type was made of comes back, and tells which of the two functions made it. */
static void contents(void)
{
	MPI_Datatype made, large, old;
	int integers, addresses, types, combiner, list[3];
	MPI_Count n_integers, n_addresses, n_counts, n_types, counts[3];

	CHECK(MPI_Type_vector(3, 2, 4, MPI_INT, &made) == MPI_SUCCESS);
	CHECK(MPI_Type_get_envelope(made, &integers, &addresses, &types, &combiner) == MPI_SUCCESS);
	CHECK(integers == 3 && addresses == 0 && types == 1 && combiner == MPI_COMBINER_VECTOR);
	CHECK(MPI_Type_get_contents(made, 3, 0, 1, list, NULL, &old) == MPI_SUCCESS);
	CHECK(list[0] == 3 && list[1] == 2 && list[2] == 4 && old == MPI_INT);
	CHECK(MPI_Type_get_contents(made, 2, 0, 1, list, NULL, &old) == MPI_ERR_ARG);
	CHECK(MPI_Type_get_contents(MPI_INT, 3, 0, 1, list, NULL, &old) == MPI_ERR_TYPE);
	CHECK(MPI_Type_contiguous(2, made, &large) == MPI_SUCCESS);
	CHECK(MPI_Type_get_contents(large, 3, 0, 1, list, NULL, &old) == MPI_SUCCESS);
	CHECK(list[0] == 2 && old != MPI_INT);
	CHECK(MPI_Type_free(&old) == MPI_SUCCESS);
	CHECK(MPI_Type_free(&large) == MPI_SUCCESS);
	CHECK(MPI_Type_free(&made) == MPI_SUCCESS);

	CHECK(MPI_Type_vector_c(3, 2, 4, MPI_INT, &large) == MPI_SUCCESS);
	CHECK(MPI_Type_get_envelope_c(large, &n_integers, &n_addresses, &n_counts, &n_types, &combiner) == MPI_SUCCESS);
	CHECK(n_integers == 0 && n_addresses == 0 && n_counts == 3 && n_types == 1);
	CHECK(MPI_Type_get_envelope(large, &integers, &addresses, &types, &combiner) == MPI_ERR_TYPE);
	CHECK(MPI_Type_get_contents_c(large, 0, 0, 3, 1, NULL, NULL, counts, &old) == MPI_SUCCESS);
	CHECK(counts[0] == 3 && counts[1] == 2 && counts[2] == 4);
	CHECK(MPI_Type_free(&large) == MPI_SUCCESS);
}

static void packing(void)
{
	int matrix[4][5], back[4][5], column[4], position = 0, needed, i;
	MPI_Datatype type;
	char name[MPI_MAX_OBJECT_NAME];
	unsigned char buffer[64];
	MPI_Aint end = 0;

	for (i = 0; i < 20; i++) {
		matrix[i / 5][i % 5] = i - 7;
		back[i / 5][i % 5] = 99;
	}
	CHECK(MPI_Type_vector(4, 1, 5, MPI_INT, &type) == MPI_SUCCESS);
	CHECK(MPI_Pack(&matrix[0][3], 1, type, buffer, 64, &position, MPI_COMM_WORLD) == MPI_ERR_TYPE); /* not committed */
	CHECK(MPI_Type_commit(&type) == MPI_SUCCESS);
	CHECK(MPI_Pack_size(1, type, MPI_COMM_WORLD, &needed) == MPI_SUCCESS && needed >= 16);
	CHECK(MPI_Pack(&matrix[0][3], 1, type, buffer, 15, &position, MPI_COMM_WORLD) == MPI_ERR_ARG && position == 0);
	CHECK(MPI_Pack(&matrix[0][3], 1, type, buffer, 64, &position, MPI_COMM_WORLD) == MPI_SUCCESS && position == 16);
	position = 0;
	CHECK(MPI_Unpack(buffer, 16, &position, column, 4, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS && position == 16);
	for (i = 0; i < 4; i++)
		CHECK(column[i] == matrix[i][3]);
	position = 0;
	CHECK(MPI_Unpack(buffer, 16, &position, &back[0][1], 1, type, MPI_COMM_WORLD) == MPI_SUCCESS);
	for (i = 0; i < 20; i++)
		CHECK(back[i / 5][i % 5] == (i % 5 == 1 ? matrix[i / 5][3] : 99));

	CHECK(MPI_Pack_external("external32", column, 4, MPI_INT, buffer, 64, &end) == MPI_SUCCESS && end == 16);
	CHECK(buffer[3] == (unsigned char)column[0] && buffer[0] == 0xff);
	CHECK(MPI_Pack_external("native", column, 4, MPI_INT, buffer, 64, &end) == MPI_ERR_UNSUPPORTED_DATAREP);

	CHECK(MPI_Type_get_name(type, name, &i) == MPI_SUCCESS && i == 0);
	CHECK(MPI_Type_set_name(type, "column") == MPI_SUCCESS);
	CHECK(MPI_Type_get_name(type, name, &i) == MPI_SUCCESS && strcmp(name, "column") == 0);
	CHECK(MPI_Type_get_name(MPI_INT, name, &i) == MPI_SUCCESS && strcmp(name, "MPI_INT") == 0);
	CHECK(MPI_Type_free(&type) == MPI_SUCCESS);
}

static void elements(void)
{
	MPI_Status status;
	MPI_Datatype type, wrong = MPI_INT;
	int count;

	CHECK(MPI_Type_contiguous(2, MPI_DOUBLE_INT, &type) == MPI_SUCCESS);
	CHECK(MPI_Status_set_elements(&status, type, 3) == MPI_SUCCESS); /* double, int, double */
	CHECK(MPI_Get_elements(&status, type, &count) == MPI_SUCCESS && count == 3);
	CHECK(MPI_Get_count(&status, type, &count) == MPI_SUCCESS && count == MPI_UNDEFINED);
	CHECK(MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS && count == 20);
	CHECK(MPI_Type_free(&type) == MPI_SUCCESS);
	CHECK(MPI_Type_free(&wrong) == MPI_ERR_TYPE && MPI_Type_free(&type) == MPI_ERR_TYPE);
	CHECK(MPI_Type_contiguous(-1, MPI_INT, &type) == MPI_ERR_COUNT);
	CHECK(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type) == MPI_ERR_TYPE);
}

static void reductions(void)
{
	long double a[3] = {1.5L, 1e4000L, -2}, b[3] = {2, 3, -3};
	struct {
		double value;
		int index;
	} p = {4, 7}, q = {4, 2};
	int commutes = 0;

	CHECK(MPI_Reduce_local(a, b, 3, MPI_LONG_DOUBLE, MPI_PROD) == MPI_SUCCESS);
	CHECK(b[0] == 3 && b[1] == 3e4000L && b[2] == 6);
	CHECK(MPI_Reduce_local(&p, &q, 1, MPI_DOUBLE_INT, MPI_MAXLOC) == MPI_SUCCESS && q.index == 2);
	CHECK(MPI_Reduce_local(a, b, 3, MPI_LONG_DOUBLE, MPI_BAND) == MPI_ERR_OP);
	CHECK(MPI_Reduce_local(a, b, 1, MPI_LONG_DOUBLE, MPI_REPLACE) == MPI_ERR_OP);
	CHECK(MPI_Op_commutative(MPI_SUM, &commutes) == MPI_SUCCESS && commutes);
}

/* Fortran's kinds: one handle for the same question, also among the contents of another datatype. */
static void kinds(void)
{
	MPI_Datatype real, again, other, pair, found;
	int size, integers, addresses, types, combiner, args[2];
	CHECK(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real) == MPI_SUCCESS);
	CHECK(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &again) == MPI_SUCCESS && again == real);
	CHECK(MPI_Type_create_f90_real(6, 30, &other) == MPI_SUCCESS && other != real);
	CHECK(MPI_Type_size(real, &size) == MPI_SUCCESS && size == 8);
	CHECK(MPI_Type_get_envelope(real, &integers, &addresses, &types, &combiner) == MPI_SUCCESS);
	CHECK(combiner == MPI_COMBINER_F90_REAL && integers == 2 && addresses == 0 && types == 0);
	CHECK(MPI_Type_get_contents(real, 2, 0, 0, args, NULL, NULL) == MPI_SUCCESS && args[0] == 15 && args[1] == MPI_UNDEFINED);
	CHECK(MPI_Type_create_f90_integer(9, &again) == MPI_SUCCESS && MPI_Type_size(again, &size) == MPI_SUCCESS && size == 4);
	CHECK(MPI_Type_create_f90_complex(6, 37, &again) == MPI_SUCCESS && MPI_Type_size(again, &size) == MPI_SUCCESS && size == 8);
	CHECK(MPI_Type_contiguous(2, real, &pair) == MPI_SUCCESS);
	CHECK(MPI_Type_get_contents(pair, 1, 0, 1, args, NULL, &found) == MPI_SUCCESS && found == real && args[0] == 2);
	CHECK(MPI_Type_free(&pair) == MPI_SUCCESS);
	double one = 1.5, sum = 0;
	CHECK(MPI_Reduce_local(&one, &sum, 1, real, MPI_SUM) == MPI_SUCCESS && sum == 1.5);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	bounds();
	contents();
	packing();
	elements();
	reductions();
	kinds();
	return end("datatypes");
}
