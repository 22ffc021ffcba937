/* What the bindings are generated from: see `cargo xtask bindings`. */
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <infiniband/ib.h>
