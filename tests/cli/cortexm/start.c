/* Start of a program on one of qemu's Cortex-M boards: memory is made ready, main is called, and what it returns
 * is the emulator's exit status by semihosting. */
#include <stdint.h>

extern uint32_t load_of_data[], begin_of_data[], end_of_data[], begin_of_bss[], end_of_bss[], top_of_stack[];
int main(void);

static void stop(uint32_t status) {
  const uint32_t reason[2] = {0x20026u, status}; /* the application has come to its end */
  register uint32_t r0 __asm__("r0") = 0x20;
  register const void* r1 __asm__("r1") = reason;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  for (;;) {
  }
}

static void fault(void) { stop(99); }

static void start(void) {
  const uint32_t* from = load_of_data;
  *(volatile uint32_t*)0xe000ed88u |= 0xfu << 20; /* the floating-point unit */
  __asm__ volatile("dsb\n\tisb");
  for (uint32_t* to = begin_of_data; to < end_of_data;) *to++ = *from++;
  for (uint32_t* to = begin_of_bss; to < end_of_bss;) *to++ = 0;
  stop((uint32_t)main());
}

__attribute__((section(".vectors"), used)) static const void* const vectors[7] = {
    top_of_stack,       (const void*)start, (const void*)fault, (const void*)fault,
    (const void*)fault, (const void*)fault, (const void*)fault};
