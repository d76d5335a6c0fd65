// The program of gate.py for AArch64: scripts/make_gate.py assembles it into the digits there. What its steps are is said
// in gate_x86_64.s.
//
//   x19  the step     x20  what the last call returned

    .text
    adr     x19, steps
step:
    ldr     w8, [x19]
    cmn     w8, #2
    b.eq    rule
    b.hi    run                         // -1, as a number without a sign
    ldp     x0, x1, [x19, #8]
    ldp     x2, x3, [x19, #24]
    cmn     x0, #2
    csel    x0, x20, x0, eq
    svc     #0
    tbnz    x0, #63, fail
    mov     x20, x0
next:
    ldr     w9, [x19, #4]
    add     x19, x19, x9
    b       step

run:                                    // execve(argv[1], argv + 1, environ)
    ldr     x9, [sp]
    add     x1, sp, #16
    ldr     x0, [x1]
    add     x2, x1, x9, lsl #3
    mov     x8, #221
    svc     #0                          // it returns only where it failed
fail:                                   // write(2, text, length)
    mov     x0, #2
    ldp     x1, x2, [x19, #40]
    mov     x8, #64
    svc     #0
    mov     x0, #126                    // exit(126)
    mov     x8, #93
    svc     #0

rule:                                   // openat2(AT_FDCWD, path, how, 24)
    mov     x0, #-100
    add     x1, x19, #16
    adr     x2, how
    mov     x3, #24
    mov     x8, #437
    svc     #0
    cmn     x0, #38                     // ENOSYS, as within another wall: openat(.., O_PATH | O_NOFOLLOW | O_CLOEXEC)
    b.ne    opened
    mov     x0, #-100
    mov     x2, #0x280000
    movk    x2, #0x8000
    mov     x8, #56
    svc     #0
opened:
    tbnz    x0, #63, next               // nothing lies there, or only by way of a symlink: no rights
    ldr     x9, [x19, #8]
    stp     x9, x0, [sp, #-16]!
    mov     x0, x20                     // landlock_add_rule(ruleset, LANDLOCK_RULE_PATH_BENEATH, {rights, file}, 0)
    mov     x1, #1
    mov     x2, sp
    mov     x3, #0
    mov     x8, #445
    svc     #0
    ldp     x9, x0, [sp], #16
    mov     x8, #57                     // close(file)
    svc     #0
    b       next

how:                                    // struct open_how: O_PATH | O_CLOEXEC, no mode, RESOLVE_NO_SYMLINKS
    .quad   0x280000, 0, 4
steps:
