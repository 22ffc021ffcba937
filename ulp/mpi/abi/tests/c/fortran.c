/* What a Fortran face says of its compiler is said once and found again; handles have numbers by their names of before the ABI, too. */
#include "check.h"

int main(int argc, char **argv)
{
	int yes = 1, no = 0, got_yes = -1, got_no = -1, is_set = -1, flag;
	char value[16];
	MPI_Info info, found;
	begin(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	CHECK(MPI_Abi_get_fortran_info(&found) == MPI_SUCCESS && found == MPI_INFO_NULL);
	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_integer_size", "8");
	CHECK(class_of(MPI_Abi_set_fortran_info(info)) == MPI_ERR_ABI);
	MPI_Info_set(info, "mpi_integer_size", "4");
	MPI_Info_set(info, "mpi_logical_size", "4");
	CHECK(MPI_Abi_set_fortran_info(info) == MPI_SUCCESS);
	CHECK(class_of(MPI_Abi_set_fortran_info(info)) == MPI_ERR_ABI);
	MPI_Info_free(&info);
	CHECK(MPI_Abi_get_fortran_info(&found) == MPI_SUCCESS && found != MPI_INFO_NULL);
	int room = sizeof value;
	MPI_Info_get_string(found, "mpi_integer_size", &room, value, &flag);
	CHECK(flag && !strcmp(value, "4"));
	MPI_Info_free(&found);
	CHECK(MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &is_set) == MPI_SUCCESS && !is_set && got_yes == -1);
	CHECK(class_of(MPI_Abi_set_fortran_booleans(3, &yes, &no)) == MPI_ERR_ARG);
	CHECK(MPI_Abi_set_fortran_booleans(4, &yes, &no) == MPI_SUCCESS);
	CHECK(class_of(MPI_Abi_set_fortran_booleans(4, &yes, &no)) == MPI_ERR_ABI);
	CHECK(MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &is_set) == MPI_SUCCESS);
	CHECK(is_set && got_yes == yes && got_no == no);
	MPI_Comm other;
	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	MPI_Fint number = MPI_Comm_c2f(other);
	CHECK(number == MPI_Comm_toint(other) && number != MPI_Comm_c2f(MPI_COMM_WORLD));
	CHECK(MPI_Comm_f2c(number) == other && PMPI_Comm_f2c(number) == other);
	CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE && MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM);
	MPI_Comm_free(&other);
	return end("fortran");
}
