# The program of gate.py for x86-64: scripts/make_gate.py assembles it into the digits there.
#
# The steps follow `steps`. Each begins with the number of a call and the bytes to the next step, then come four
# arguments, and the address and length of what is written to standard error before exit(126). A number of -2 is a rule
# for Landlock: rights, then a path that ends with a zero byte. A number of -1 ends the steps. An argument of -2 is what
# the call before returned. At the start argc, argv and environ are on the stack, and the registers are 0.
#
#   rbx  the step     r12  what the last call returned

    .intel_syntax noprefix
    .text
    lea     rbx, [rip + steps]
step:
    mov     eax, [rbx]
    cmp     eax, -2
    je      rule
    ja      run                         # -1, as a number without a sign
    mov     rdi, [rbx + 8]
    cmp     rdi, -2
    cmove   rdi, r12
    mov     rsi, [rbx + 16]
    mov     rdx, [rbx + 24]
    mov     r10, [rbx + 32]
    syscall
    test    rax, rax
    js      fail
    mov     r12, rax
next:
    mov     eax, [rbx + 4]
    add     rbx, rax
    jmp     step

run:                                    # execve(argv[1], argv + 1, environ)
    mov     rax, [rsp]
    lea     rsi, [rsp + 16]
    mov     rdi, [rsi]
    lea     rdx, [rsi + rax * 8]
    mov     eax, 59
    syscall                             # it returns only where it failed
fail:                                   # write(2, text, length)
    mov     edi, 2
    mov     rsi, [rbx + 40]
    mov     rdx, [rbx + 48]
    mov     eax, 1
    syscall
    mov     edi, 126                    # exit(126)
    mov     eax, 60
    syscall

rule:                                   # openat2(AT_FDCWD, path, how, 24)
    mov     edi, -100
    lea     rsi, [rbx + 16]
    lea     rdx, [rip + how]
    mov     r10d, 24
    mov     eax, 437
    syscall
    cmp     eax, -38                    # ENOSYS, as within another wall: openat(.., O_PATH | O_NOFOLLOW | O_CLOEXEC)
    jne     opened
    mov     edx, 0x2a0000
    mov     eax, 257
    syscall
opened:
    test    rax, rax
    js      next                        # nothing lies there, or only by way of a symlink: no rights
    push    rax
    push    qword ptr [rbx + 8]
    mov     rdi, r12                    # landlock_add_rule(ruleset, LANDLOCK_RULE_PATH_BENEATH, {rights, file}, 0)
    mov     esi, 1
    mov     rdx, rsp
    xor     r10d, r10d
    mov     eax, 445
    syscall
    pop     rdi
    pop     rdi
    mov     eax, 3                      # close(file)
    syscall
    jmp     next

how:                                    # struct open_how: O_PATH | O_CLOEXEC, no mode, RESOLVE_NO_SYMLINKS
    .quad   0x280000, 0, 4
steps:
