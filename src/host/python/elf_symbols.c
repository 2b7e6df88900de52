#include "host/python/elf_symbols.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/file/file.h"

enum { SECTIONS_MOST = 512, NAMES_MOST = 32 << 20, SYMBOLS_AT_ONCE = 512, SYMBOLS_MOST = 4 << 20 };

static bool read_at(int fd, void *out, size_t size, uint64_t offset)
{
    return offset < (uint64_t)1 << 62 && file_read_all_at(fd, out, size, offset) == size;
}

/* ---- one table ---- */

static void take_symbol(const Elf64_Sym *symbol, const char *names, uint64_t names_size, struct elf_symbol *wanted, int count)
{
    if (symbol->st_name >= names_size || symbol->st_shndx == SHN_UNDEF)
        return;
    for (int i = 0; i < count; i++)
        if (!wanted[i].value && strcmp(names + symbol->st_name, wanted[i].name) == 0)
            wanted[i].value = symbol->st_value;
}

static bool search_table(int fd, const Elf64_Shdr *table, const char *names, uint64_t names_size, struct elf_symbol *wanted, int count)
{
    Elf64_Sym some[SYMBOLS_AT_ONCE];
    uint64_t left = table->sh_size / sizeof(*some);
    if (left > SYMBOLS_MOST)
        return false;
    for (uint64_t at = table->sh_offset; left > 0;) {
        size_t n = left < SYMBOLS_AT_ONCE ? (size_t)left : SYMBOLS_AT_ONCE;
        if (!read_at(fd, some, n * sizeof(*some), at))
            return false;
        for (size_t i = 0; i < n; i++)
            take_symbol(&some[i], names, names_size, wanted, count);
        at += n * sizeof(*some);
        left -= n;
    }
    return true;
}

static bool search_with_names(int fd, const Elf64_Shdr *table, const Elf64_Shdr *strings, struct elf_symbol *wanted, int count)
{
    if (strings->sh_size == 0 || strings->sh_size > NAMES_MOST)
        return false;
    char *names = malloc(strings->sh_size + 1);
    bool good = names && read_at(fd, names, strings->sh_size, strings->sh_offset);
    if (good) {
        names[strings->sh_size] = 0;
        good = search_table(fd, table, names, strings->sh_size, wanted, count);
    }
    free(names);
    return good;
}

/* ---- the file ---- */

static bool is_complete(const struct elf_symbol *wanted, int count)
{
    for (int i = 0; i < count; i++)
        if (!wanted[i].value)
            return false;
    return true;
}

/* The table for the dynamic linker survives stripping; the other one is asked for what is not in it. */
static bool search_sections(int fd, const Elf64_Shdr *section, int sections, struct elf_symbol *wanted, int count)
{
    static const uint32_t kinds[] = {SHT_DYNSYM, SHT_SYMTAB};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < sections && !is_complete(wanted, count); i++)
            if (section[i].sh_type == kinds[k] && section[i].sh_link < (uint32_t)sections &&
                !search_with_names(fd, &section[i], &section[section[i].sh_link], wanted, count))
                return false;
    return true;
}

bool elf_find_symbols(int fd, struct elf_symbol *wanted, int count, bool *is_fixed)
{
    Elf64_Ehdr head;
    const unsigned char own_order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    for (int i = 0; i < count; i++)
        wanted[i].value = 0;
    if (!read_at(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != own_order || head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shnum == 0 || head.e_shnum > SECTIONS_MOST)
        return false;
    *is_fixed = head.e_type == ET_EXEC;
    Elf64_Shdr *section = malloc(head.e_shnum * sizeof(*section));
    bool good = section && read_at(fd, section, head.e_shnum * sizeof(*section), head.e_shoff) &&
                search_sections(fd, section, head.e_shnum, wanted, count);
    free(section);
    return good;
}
