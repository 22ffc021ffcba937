/* Version nodes as programs find them at run time, and neighbours: providers that are loaded beside us. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <stdbool.h>

static void *versioned(void *library, const char *name, const char *node)
{
	void *symbol = dlvsym(library, name, node);

	if (!symbol)
		FAIL("%s@%s: %s", name, node, dlerror());
	return symbol;
}

/* NCCL opens the unversioned name and asks for these nodes. */
static void as_nccl_does(void)
{
	void *library = dlopen("libibverbs.so", RTLD_NOW);

	if (!library)
		FAIL("%s", dlerror());
	CHECK(versioned(library, "ibv_open_device", "IBVERBS_1.1") == (void *)ibv_open_device);
	versioned(library, "ibv_reg_mr_iova2", "IBVERBS_1.8");
	versioned(library, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
	versioned(library, "ibv_query_ece", "IBVERBS_1.10");
	CHECK(!dlvsym(library, "ibv_reg_mr_iova2", "IBVERBS_1.1"));
	/* The oldest interface exists, is not the current one, and refuses. */
	struct ibv_device **(*old_list)(int *) = versioned(library, "ibv_get_device_list", "IBVERBS_1.0");
	int (*old_post)(void *) = versioned(library, "ibv_dealloc_pd", "IBVERBS_1.0");
	void (*old_driver)(void) = versioned(library, "ibv_register_driver", "IBVERBS_1.1");
	int count = 5;

	CHECK((void *)old_list != (void *)ibv_get_device_list);
	REFUSED(old_list(&count), EOPNOTSUPP);
	EQ(old_post(NULL), EOPNOTSUPP);
	old_driver();
	int (*private)(void) = versioned(library, "ibv_cmd_create_qp", "IBVERBS_PRIVATE_34");

	EQ(private(), EOPNOTSUPP);
	CHECK(*(bool *)versioned(library, "verbs_allow_disassociate_destroy", "IBVERBS_PRIVATE_34") == false);
}

/* Real providers, where installed, load and leave our device alone. */
static void providers(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	void *mlx5 = dlopen("libmlx5.so.1", RTLD_NOW), *efa = dlopen("libefa.so.1", RTLD_NOW);

	CHECK(list && list[0]);
	if (mlx5) {
		bool (*is_supported)(struct ibv_device *) = dlsym(mlx5, "mlx5dv_is_supported");
		void *(*open)(struct ibv_device *, void *) = dlsym(mlx5, "mlx5dv_open_device");
		char attributes[64] = { 0 };

		CHECK(is_supported && !is_supported(list[0]));
		CHECK(open);
		REFUSED(open(list[0], attributes), EOPNOTSUPP);
	}
	if (efa) {
		struct ibv_context *context = ibv_open_device(list[0]);
		int (*query)(struct ibv_context *, void *, uint32_t) = dlsym(efa, "efadv_query_device");
		char attributes[256] = { 0 };

		CHECK(context && query);
		EQ(query(context, attributes, sizeof(attributes)), EOPNOTSUPP);
		EQ(ibv_close_device(context), 0);
	}
	printf("providers: mlx5 %s, efa %s\n", mlx5 ? "loaded" : "not installed", efa ? "loaded" : "not installed");
	ibv_free_device_list(list);
}

int main(void)
{
	as_nccl_does();
	providers();
	return 0;
}
