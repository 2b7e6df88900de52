#include "python/module.h"
#include "python/py_map.h"

#include <stdbool.h>

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddType(module, type) < 0)
        Py_CLEAR(type);
    return type;
}

static int module_exec(PyObject *module)
{
    struct module_state *m = PyModule_GetState(module);
    m->loader = add_type(module, &loader_spec);
    m->batch = add_type(module, &batch_spec);
    m->array = add_type(module, &array_spec);
    m->pixels = add_type(module, &pixels_spec);
    m->monitor = add_type(module, &monitor_spec);
    m->ahead = add_type(module, &ahead_spec);
    return m->ahead && m->loader && m->batch && m->array && m->pixels && m->monitor && PyModule_AddFunctions(module, random_methods) == 0
               ? 0
               : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct module_state *m = PyModule_GetState(module);
    Py_VISIT(m->loader);
    Py_VISIT(m->batch);
    Py_VISIT(m->array);
    Py_VISIT(m->pixels);
    Py_VISIT(m->monitor);
    Py_VISIT(m->ahead);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct module_state *m = PyModule_GetState(module);
    Py_CLEAR(m->loader);
    Py_CLEAR(m->batch);
    Py_CLEAR(m->array);
    Py_CLEAR(m->pixels);
    Py_CLEAR(m->monitor);
    Py_CLEAR(m->ahead);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "fullbore._fullbore",
    .m_doc = "The engine. Use the fullbore package.",
    .m_size = sizeof(struct module_state),
    .m_methods = ops_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__fullbore(void); /* what the interpreter calls */
PyMODINIT_FUNC PyInit__fullbore(void)
{
    static bool is_prepared;
    if (!is_prepared)
        prepare_fork();
    is_prepared = true;
    return PyModuleDef_Init(&module_def);
}
