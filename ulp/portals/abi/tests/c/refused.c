/* PtlNIInit where a setting means nothing: PTL_FAIL, and words on stderr. */
#include <portals4.h>
#include <stdio.h>

int main(void)
{
    ptl_handle_ni_t ni;
    if (PtlInit() != PTL_OK)
        return 1;
    if (PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni) != PTL_FAIL)
        return 2;
    PtlFini();
    puts("ok");
    return 0;
}
