/* table.c - APR::Table: a blessed, tied hash over a table of the host.
 *
 * OWNERSHIP. The outer hash owns the tied object, a PVMG whose IV is the host's handle and whose NV is the
 * iterator; a table made by APR::Table::make is freed by the tied object's magic, the others belong to
 * their request.
 */
#include "internal.h"

static int free_table(pTHX_ SV *inner, MAGIC *own)
{
    PERL_UNUSED_ARG(own);
    drom.host->table_free((uint64_t)SvIVX(inner));
    return 0;
}

static MGVTBL owned_table = { .svt_free = free_table };

/* The value of an element that a list of values or an iteration made: perl asks for it when the
 * iteration has gone on already. Ends when the element is set. */
static int get_own_value(pTHX_ SV *element, MAGIC *own)
{
    if (own->mg_obj)
        sv_setsv(element, own->mg_obj);
    return 0;
}

static int set_element(pTHX_ SV *element, MAGIC *own)
{
    PERL_UNUSED_ARG(element);
    SvREFCNT_dec(own->mg_obj);
    own->mg_obj = NULL;
    return 0;
}

static MGVTBL own_value = { .svt_get = get_own_value, .svt_set = set_element };

/* Perl makes an element of the tied hash. Magic that was put on last is asked first. */
static int copy_to_element(pTHX_ SV *outer, MAGIC *tie, SV *element, const char *name, I32 len)
{
    SV *inner = SvROK(tie->mg_obj) ? SvRV(tie->mg_obj) : NULL;
    IV at = inner ? (IV)SvNVX(inner) : -1;
    STRLEN size = len;
    const char *key = at >= 0 && len == HEf_SVKEY ? SvPV((SV *)name, size) : name;
    drom_pair pair;
    if (at >= 0 && drom.host->table_at((uint64_t)SvIVX(inner), at, &pair) && pair.key.len == size
        && foldEQ(pair.key.ptr, key, size)) {
        SV *value = drom_sv(aTHX_ pair.value);
        sv_magicext(element, value, PERL_MAGIC_ext, &own_value, NULL, 0);
        SvREFCNT_dec(value);
    }
    sv_magic(element, SvTIED_obj(outer, tie), PERL_MAGIC_tiedelem, name, len);
    return 1;
}

static MGVTBL table_tie; /* perl's own for a tied hash, with copy_to_element */

SV *drom_table_object(pTHX_ uint64_t table, int owned)
{
    HV *stash = gv_stashpvs("APR::Table", GV_ADD);
    SV *inner = newSV_type(SVt_PVMG);
    SvNV_set(inner, -1);
    SvIV_set(inner, (IV)table);
    SvIOK_on(inner);
    if (owned)
        sv_magicext(inner, NULL, PERL_MAGIC_ext, &owned_table, NULL, 0);
    SV *tie = sv_bless(newRV_noinc(inner), stash);
    HV *outer = newHV();
    hv_magic(outer, (GV *)tie, PERL_MAGIC_tied);
    MAGIC *magic = SvMAGIC(outer);
    magic->mg_virtual = &table_tie;
    magic->mg_flags |= MGf_COPY;
    SvREFCNT_dec(tie);
    return sv_bless(newRV_noinc((SV *)outer), stash);
}

static SV *inner_of(pTHX_ SV *object)
{
    if (!SvROK(object) || !sv_derived_from(object, "APR::Table"))
        croak("not an APR::Table");
    SV *inner = SvRV(object);
    if (SvTYPE(inner) == SVt_PVHV) {
        MAGIC *tie = mg_find(inner, PERL_MAGIC_tied);
        if (!tie || !SvROK(tie->mg_obj))
            croak("this APR::Table has lost its table");
        inner = SvRV(tie->mg_obj);
    }
    return inner;
}

static uint64_t handle_of(pTHX_ SV *object) { return (uint64_t)SvIVX(inner_of(aTHX_ object)); }

static XSPROTO(xs_make)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    ST(0) = sv_2mortal(drom_table_object(aTHX_ drom.host->table_new(), 1));
    XSRETURN(1);
}

/* get in list context: every value of the key. FETCH within each: the value of this very entry. */
static XSPROTO(xs_get)
{
    dXSARGS;
    if (items != 2)
        croak("usage: $table->get(key)");
    uint64_t table = handle_of(aTHX_ ST(0));
    STRLEN len;
    const char *key = SvPV(ST(1), len);
    if (GIMME_V != G_LIST) {
        ST(0) = sv_2mortal(drom_sv(aTHX_ drom.host->table_get(table, key, len, 0)));
        XSRETURN(1);
    }
    SV *name = ST(1);
    SP -= items;
    for (size_t nth = 0;; nth++) {
        drom_str value = drom.host->table_get(table, key, len, nth);
        if (!value.ptr)
            break;
        XPUSHs(sv_2mortal(drom_sv(aTHX_ value)));
    }
    PERL_UNUSED_VAR(name);
    PUTBACK;
}

static XSPROTO(xs_fetch)
{
    dXSARGS;
    if (items != 2)
        croak("usage: $table->{key}");
    SV *inner = inner_of(aTHX_ ST(0));
    STRLEN len;
    const char *key = SvPV(ST(1), len);
    drom_pair pair;
    IV at = (IV)SvNVX(inner);
    if (at >= 0 && drom.host->table_at((uint64_t)SvIVX(inner), at, &pair) && pair.key.len == len
        && foldEQ(pair.key.ptr, key, len))
        ST(0) = sv_2mortal(drom_sv(aTHX_ pair.value));
    else
        ST(0) = sv_2mortal(drom_sv(aTHX_ drom.host->table_get((uint64_t)SvIVX(inner), key, len, 0)));
    XSRETURN(1);
}

static XSPROTO(xs_put) /* ALIAS: set, STORE, add, merge by XSANY */
{
    dXSARGS;
    if (items != 3)
        croak("usage: $table->set(key, value)");
    STRLEN klen, vlen;
    const char *key = SvPV(ST(1), klen), *value = SvPV(ST(2), vlen);
    drom.host->table_put(handle_of(aTHX_ ST(0)), key, klen, value, vlen, XSANY.any_i32);
    XSRETURN_EMPTY;
}

static XSPROTO(xs_unset)
{
    dXSARGS;
    if (items != 2)
        croak("usage: $table->unset(key)");
    STRLEN len;
    const char *key = SvPV(ST(1), len);
    drom.host->table_unset(handle_of(aTHX_ ST(0)), key, len);
    XSRETURN_EMPTY;
}

static XSPROTO(xs_clear)
{
    dXSARGS;
    if (items != 1)
        croak("usage: $table->clear");
    drom.host->table_clear(handle_of(aTHX_ ST(0)));
    XSRETURN_EMPTY;
}

static XSPROTO(xs_exists)
{
    dXSARGS;
    if (items != 2)
        croak("usage: exists $table->{key}");
    STRLEN len;
    const char *key = SvPV(ST(1), len);
    ST(0) = boolSV(drom.host->table_get(handle_of(aTHX_ ST(0)), key, len, 0).ptr != NULL);
    XSRETURN(1);
}

static XSPROTO(xs_next) /* ALIAS: FIRSTKEY 0, NEXTKEY 1 */
{
    dXSARGS;
    if (items < 1)
        croak("usage: each %%$table");
    SV *inner = inner_of(aTHX_ ST(0));
    drom_pair pair;
    IV at = XSANY.any_i32 ? (IV)SvNVX(inner) + 1 : 0;
    int more = drom.host->table_at((uint64_t)SvIVX(inner), at, &pair);
    SvNV_set(inner, more ? at : -1);
    ST(0) = more ? sv_2mortal(drom_sv(aTHX_ pair.key)) : &PL_sv_undef;
    XSRETURN(1);
}

/* $table->do(sub { my ($key, $value) = @_; ...; 1 }, keys...): stops at a false value. */
static XSPROTO(xs_do)
{
    dXSARGS;
    if (items < 2)
        croak("usage: $table->do(sub, keys...)");
    uint64_t table = handle_of(aTHX_ ST(0));
    SV *code = ST(1);
    drom_pair pair;
    int go_on = 1;
    for (size_t at = 0; go_on && drom.host->table_at(table, at, &pair); at++) {
        int wanted = items == 2;
        for (I32 i = 2; i < items && !wanted; i++) {
            STRLEN len;
            const char *key = SvPV(ST(i), len);
            wanted = len == pair.key.len && foldEQ(key, pair.key.ptr, len);
        }
        if (!wanted)
            continue;
        dSP;
        ENTER;
        SAVETMPS;
        PUSHMARK(SP);
        mXPUSHs(drom_sv(aTHX_ pair.key));
        mXPUSHs(drom_sv(aTHX_ pair.value));
        PUTBACK;
        int count = call_sv(code, G_SCALAR);
        SPAGAIN;
        go_on = count && SvTRUE(TOPs);
        SP -= count;
        PUTBACK;
        FREETMPS;
        LEAVE;
    }
    ST(0) = &PL_sv_yes; /* as in mod_perl, whether it went through or was stopped */
    XSRETURN(1);
}

void drom_boot_table(pTHX)
{
    table_tie = PL_magic_vtables[want_vtbl_pack];
    table_tie.svt_copy = copy_to_element;
    drom_define(aTHX_ "APR::Table::make", xs_make, 0);
    drom_define(aTHX_ "APR::Table::get", xs_get, 0);
    drom_define(aTHX_ "APR::Table::FETCH", xs_fetch, 0);
    drom_define(aTHX_ "APR::Table::set", xs_put, DROM_PUT_SET);
    drom_define(aTHX_ "APR::Table::STORE", xs_put, DROM_PUT_SET);
    drom_define(aTHX_ "APR::Table::add", xs_put, DROM_PUT_ADD);
    drom_define(aTHX_ "APR::Table::merge", xs_put, DROM_PUT_MERGE);
    drom_define(aTHX_ "APR::Table::unset", xs_unset, 0);
    drom_define(aTHX_ "APR::Table::DELETE", xs_unset, 0);
    drom_define(aTHX_ "APR::Table::clear", xs_clear, 0);
    drom_define(aTHX_ "APR::Table::CLEAR", xs_clear, 0);
    drom_define(aTHX_ "APR::Table::EXISTS", xs_exists, 0);
    drom_define(aTHX_ "APR::Table::FIRSTKEY", xs_next, 0);
    drom_define(aTHX_ "APR::Table::NEXTKEY", xs_next, 1);
    drom_define(aTHX_ "APR::Table::do", xs_do, 0);
}
