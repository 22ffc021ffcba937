/* Attributes of communicators and datatypes, info objects, and the program's own error codes and handlers. */
#include "check.h"

static int copied, deleted, last_deleted, refuses;

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
	(void)keyval;
	CHECK(comm != MPI_COMM_SELF && extra == &copied);
	if (refuses)
		return MPI_ERR_OTHER;
	copied++;
	*(void **)out = (char *)in + 1;
	*flag = 1;
	return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm, (void)keyval;
	CHECK(extra == &copied);
	deleted++;
	last_deleted = (int)(long)value;
	return MPI_SUCCESS;
}

static void *get(MPI_Comm comm, int keyval)
{
	void *value = NULL;
	int flag;
	CHECK(MPI_Comm_get_attr(comm, keyval, &value, &flag) == MPI_SUCCESS);
	return flag ? value : (void *)-1L;
}

static void attributes(void)
{
	int mine, duplicated, never;
	MPI_Comm other;

	CHECK(MPI_Comm_create_keyval(copy, delete, &mine, &copied) == MPI_SUCCESS);
	CHECK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &duplicated, NULL) == MPI_SUCCESS);
	CHECK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &never, NULL) == MPI_SUCCESS);
	CHECK(get(MPI_COMM_WORLD, mine) == (void *)-1L);
	CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, mine, (void *)10L) == MPI_SUCCESS);
	CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, mine, (void *)20L) == MPI_SUCCESS);
	CHECK(deleted == 1 && last_deleted == 10);
	CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, duplicated, (void *)30L) == MPI_SUCCESS);
	CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, never, (void *)40L) == MPI_SUCCESS);

	CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &other) == MPI_SUCCESS);
	CHECK(copied == 1);
	CHECK(get(other, mine) == (void *)21L);
	CHECK(get(other, duplicated) == (void *)30L);
	CHECK(get(other, never) == (void *)-1L);
	/* A freed key lives on in what bears it. */
	CHECK(MPI_Comm_free_keyval(&mine) == MPI_SUCCESS && mine == MPI_KEYVAL_INVALID);
	CHECK(MPI_Comm_free(&other) == MPI_SUCCESS);
	CHECK(deleted == 2 && last_deleted == 21);

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	refuses = 1;
	CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &other) != MPI_SUCCESS);
	refuses = 0;
	CHECK(class_of(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, NULL)) == MPI_ERR_KEYVAL);
	CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL) != MPI_SUCCESS);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	CHECK(MPI_Comm_delete_attr(MPI_COMM_WORLD, duplicated) == MPI_SUCCESS);
	CHECK(get(MPI_COMM_WORLD, duplicated) == (void *)-1L);
	CHECK(MPI_Comm_free_keyval(&duplicated) == MPI_SUCCESS);
	CHECK(MPI_Comm_free_keyval(&never) == MPI_SUCCESS);

	CHECK(*(int *)get(MPI_COMM_WORLD, MPI_TAG_UB) >= 32767);
	CHECK(*(int *)get(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE) >= size);
	int global = *(int *)get(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL);
	CHECK(global == 0 || global == 1);
}

static MPI_Datatype told;

static int copy_of_type(MPI_Datatype type, int keyval, void *extra, void *in, void *out, int *flag)
{
	(void)keyval;
	CHECK(extra == &told);
	told = type;
	if (refuses)
		return MPI_ERR_OTHER;
	*(void **)out = (char *)in + 1;
	*flag = 1;
	return MPI_SUCCESS;
}

static int delete_of_type(MPI_Datatype type, int keyval, void *value, void *extra)
{
	(void)keyval, (void)extra;
	told = type;
	last_deleted = (int)(long)value;
	return refuses ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void attributes_of_types(void)
{
	int mine, of_comms, flag;
	void *value = NULL;
	MPI_Datatype pair, other, gone;

	CHECK(MPI_Type_create_keyval(copy_of_type, delete_of_type, &mine, &told) == MPI_SUCCESS);
	CHECK(MPI_Type_contiguous(2, MPI_INT, &pair) == MPI_SUCCESS);
	CHECK(MPI_Type_get_attr(pair, mine, &value, &flag) == MPI_SUCCESS && !flag);
	CHECK(MPI_Type_set_attr(pair, mine, (void *)50L) == MPI_SUCCESS);
	CHECK(MPI_Type_set_attr(MPI_INT, mine, (void *)60L) == MPI_SUCCESS);
	CHECK(MPI_Type_get_attr(MPI_INT, mine, &value, &flag) == MPI_SUCCESS && flag && value == (void *)60L);
	CHECK(MPI_Type_dup(pair, &other) == MPI_SUCCESS && told == pair);
	CHECK(MPI_Type_get_attr(other, mine, &value, &flag) == MPI_SUCCESS && flag && value == (void *)51L);
	CHECK(MPI_Type_delete_attr(pair, mine) == MPI_SUCCESS && last_deleted == 50 && told == pair);
	CHECK(MPI_Type_get_attr(pair, mine, &value, &flag) == MPI_SUCCESS && !flag);

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	refuses = 1;
	CHECK(MPI_Type_dup(other, &gone) != MPI_SUCCESS);
	/* A delete function that fails keeps the object. */
	CHECK(MPI_Type_free(&other) != MPI_SUCCESS && other != MPI_DATATYPE_NULL);
	refuses = 0;
	CHECK(MPI_Comm_create_keyval(copy, delete, &of_comms, &copied) == MPI_SUCCESS);
	CHECK(class_of(MPI_Type_set_attr(pair, of_comms, NULL)) == MPI_ERR_KEYVAL);
	CHECK(MPI_Comm_free_keyval(&of_comms) == MPI_SUCCESS);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);

	gone = other;
	CHECK(MPI_Type_free_keyval(&mine) == MPI_SUCCESS && mine == MPI_KEYVAL_INVALID);
	CHECK(MPI_Type_free(&other) == MPI_SUCCESS && last_deleted == 51 && told == gone);
	CHECK(MPI_Type_free(&pair) == MPI_SUCCESS);
}

static void infos(void)
{
	MPI_Info info, copy;
	char value[64], key[MPI_MAX_INFO_KEY];
	int flag, n;

	CHECK(MPI_Info_create(&info) == MPI_SUCCESS);
	CHECK(MPI_Info_set(info, "colour", "blue") == MPI_SUCCESS);
	CHECK(MPI_Info_set(info, "shape", "round") == MPI_SUCCESS);
	CHECK(MPI_Info_set(info, "colour", "green") == MPI_SUCCESS);
	CHECK(MPI_Info_get_nkeys(info, &n) == MPI_SUCCESS && n == 2);
	CHECK(MPI_Info_get_nthkey(info, 1, key) == MPI_SUCCESS && strcmp(key, "shape") == 0);
	n = 0;
	CHECK(MPI_Info_get_string(info, "colour", &n, NULL, &flag) == MPI_SUCCESS && flag && n == 6);
	n = 4;
	CHECK(MPI_Info_get_string(info, "colour", &n, value, &flag) == MPI_SUCCESS && flag && n == 6);
	CHECK(strcmp(value, "gre") == 0);
	CHECK(MPI_Info_dup(info, &copy) == MPI_SUCCESS);
	CHECK(MPI_Info_delete(info, "colour") == MPI_SUCCESS);
	n = sizeof value;
	CHECK(MPI_Info_get_string(info, "colour", &n, value, &flag) == MPI_SUCCESS && !flag);
	CHECK(MPI_Info_get_string(copy, "colour", &n, value, &flag) == MPI_SUCCESS && flag);
	CHECK(strcmp(value, "green") == 0);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	CHECK(class_of(MPI_Info_delete(info, "colour")) == MPI_ERR_INFO_NOKEY);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
	CHECK(MPI_Info_free(&copy) == MPI_SUCCESS && copy == MPI_INFO_NULL);
	CHECK(MPI_Info_free(&info) == MPI_SUCCESS);
	CHECK(MPI_Info_get_nkeys(MPI_INFO_ENV, &n) == MPI_SUCCESS && n > 0);
}

static int handled, handled_code;
static MPI_Comm handled_comm;

static void handler(MPI_Comm *comm, int *code, ...)
{
	handled++;
	handled_code = *code;
	handled_comm = *comm;
}

static void errors(void)
{
	MPI_Errhandler own, found;
	MPI_Comm comm, child;
	int class, code, again, length, n;
	char text[MPI_MAX_ERROR_STRING];

	CHECK(MPI_Add_error_class(&class) == MPI_SUCCESS && class > MPI_ERR_LASTCODE);
	CHECK(MPI_Add_error_code(class, &code) == MPI_SUCCESS && code != class);
	CHECK(MPI_Add_error_string(code, "the kettle boils over") == MPI_SUCCESS);
	CHECK(MPI_Error_class(code, &again) == MPI_SUCCESS && again == class);
	CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS);
	CHECK(strcmp(text, "the kettle boils over") == 0 && length == (int)strlen(text));
	CHECK(*(int *)get(MPI_COMM_WORLD, MPI_LASTUSEDCODE) >= code);

	CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
	CHECK(MPI_Comm_create_errhandler(handler, &own) == MPI_SUCCESS);
	CHECK(MPI_Comm_set_errhandler(comm, own) == MPI_SUCCESS);
	CHECK(MPI_Comm_get_errhandler(comm, &found) == MPI_SUCCESS && found == own);
	CHECK(MPI_Errhandler_free(&found) == MPI_SUCCESS && found == MPI_ERRHANDLER_NULL);
	CHECK(MPI_Errhandler_free(&own) == MPI_SUCCESS);

	CHECK(class_of(MPI_Send(NULL, 0, MPI_INT, size, 0, comm)) == MPI_ERR_RANK);
	CHECK(handled == 1 && class_of(handled_code) == MPI_ERR_RANK && handled_comm == comm);
	CHECK(MPI_Comm_call_errhandler(comm, code) == MPI_SUCCESS);
	CHECK(handled == 2 && handled_code == code);
	/* Duplicates have it, too. */
	CHECK(MPI_Comm_dup(comm, &child) == MPI_SUCCESS);
	CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
	CHECK(class_of(MPI_Send(NULL, -1, MPI_INT, 0, 0, child)) == MPI_ERR_COUNT);
	CHECK(handled == 3 && handled_comm == child);
	CHECK(MPI_Comm_free(&child) == MPI_SUCCESS);

	CHECK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found) == MPI_SUCCESS && found == MPI_ERRORS_ARE_FATAL);
	CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS);
	CHECK(MPI_Error_string(code, text, &n) == MPI_SUCCESS && n == 0);
	CHECK(MPI_Remove_error_code(code) == MPI_SUCCESS);
	CHECK(MPI_Remove_error_class(class) == MPI_SUCCESS);
}

static int order[3], ended;

static int at_end(MPI_Comm comm, int keyval, void *value, void *extra)
{
	int finalized = 1;
	(void)keyval, (void)extra;
	CHECK(comm == MPI_COMM_SELF);
	CHECK(MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized);
	order[ended++] = (int)(long)value;
	if (ended == 3 && (order[0] != 3 || order[1] != 2 || order[2] != 1))
		MPI_Abort(MPI_COMM_WORLD, 4);
	/* The last one says that all was well, which end() has not seen. */
	if (ended == 3 && rank == 0)
		printf("attributes: %d ranks: ok\n", size);
	return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
	MPI_Info early;
	int keyval;

	/* Info objects are there before MPI is. */
	CHECK(MPI_Info_create(&early) == MPI_SUCCESS);
	CHECK(MPI_Info_set(early, "a", "b") == MPI_SUCCESS);
	begin(&argc, &argv);
	CHECK(MPI_Info_free(&early) == MPI_SUCCESS);
	attributes();
	attributes_of_types();
	infos();
	errors();
	/* What is kept at MPI_COMM_SELF goes first of all in MPI_Finalize, the last one first. */
	for (long i = 1; i <= 3; i++) {
		CHECK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &keyval, NULL) == MPI_SUCCESS);
		CHECK(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, (void *)i) == MPI_SUCCESS);
	}
	CHECK(MPI_Finalize() == MPI_SUCCESS);
	return 0;
}
