/* An operator's XDP program: frames of one Ethernet type stay with the host, the rest goes to the sockets. It counts both. */

#define is(name, value) int (*name)[value]
#define a(name, kind) kind *name

struct {
    is(type, 17); /* XSKMAP */
    is(max_entries, 4);
    a(key, int);
    a(value, int);
} xsks_map __attribute__((section(".maps"), used));

struct {
    is(type, 2); /* ARRAY */
    is(max_entries, 2);
    a(key, int);
    a(value, unsigned long);
} seen __attribute__((section(".maps"), used));

struct frame {
    unsigned int data, data_end, data_meta, ingress, queue, egress;
};

static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const redirect)(void *map, unsigned int key, unsigned long flags) = (void *)51;

char terms[] __attribute__((section("license"), used)) = "Apache-2.0";

__attribute__((section("xdp"), used)) int stay_or_go(struct frame *about)
{
    unsigned char *data = (void *)(long)about->data, *end = (void *)(long)about->data_end;
    if (data + 14 > end)
        return 1;
    /* IEEE 802 local experiments */
    unsigned int stays = data[12] == 0x88 && data[13] == 0xb5;
    unsigned long *count = lookup(&seen, &stays);
    if (count)
        *count += 1;
    return stays ? 2 : redirect(&xsks_map, about->queue, 2);
}
