/* For tests of what must not depend on the locale. */
#ifndef FB_TESTS_BASE_TEXT_COMMA_LOCALE_H
#define FB_TESTS_BASE_TEXT_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Any installed locale with a decimal comma, or one made for the occasion. */
static bool set_comma_locale(void)
{
    char folder[] = "/tmp/fullbore-locale-XXXXXX", command[200];
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8", "pt_BR.UTF-8", "ru_RU.UTF-8"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (setlocale(LC_ALL, names[i]))
            return true;
    if (!mkdtemp(folder))
        return false;
    snprintf(command, sizeof(command), "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null", folder);
    setenv("LOCPATH", folder, 1);
    bool is_made = system(command) == 0 && setlocale(LC_ALL, names[0]);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) == 0 && is_made;
}

#endif
