/* abi.c - where perl's headers have what `src/heap/abi.rs` says. Calls nothing of perl's. */
#include "EXTERN.h"
#define PERL_CORE
#include "perl.h"
#undef printf
extern int printf(const char *, ...);

#define SAY(name, value) printf("%s %lu\n", #name, (unsigned long)(value))

/* Kinds and flags of values */
static void kinds(void)
{
    SAY(SV_REFCNT, offsetof(SV, sv_refcnt));
    SAY(IV, SVt_IV);
    SAY(NV, SVt_NV);
    SAY(PV, SVt_PV);
    SAY(INVLIST, SVt_INVLIST);
    SAY(PVIV, SVt_PVIV);
    SAY(PVNV, SVt_PVNV);
    SAY(PVMG, SVt_PVMG);
    SAY(REGEXP, SVt_REGEXP);
    SAY(PVGV, SVt_PVGV);
    SAY(PVLV, SVt_PVLV);
    SAY(PVAV, SVt_PVAV);
    SAY(PVHV, SVt_PVHV);
    SAY(PVCV, SVt_PVCV);
    SAY(PVFM, SVt_PVFM);
    SAY(PVIO, SVt_PVIO);
    SAY(FREED, SVTYPEMASK);
    SAY(POK, SVf_POK|SVp_POK);
    SAY(ROK, SVf_ROK);
    SAY(OBJECT, SVs_OBJECT);
    SAY(HAS_GP, SVpgv_GP);
    SAY(OOK, SVf_OOK);
    SAY(IS_COW, SVf_IsCOW);
    SAY(FAKE, SVf_FAKE);
    SAY(WEAK, SVprv_WEAKREF);
    SAY(REAL, SVpav_REAL);
}

/* Where fields of bodies lie, and sizes */
static void bodies(void)
{
    SAY(MAGIC, offsetof(XPVMG, xmg_u));
    SAY(PV_CUR, offsetof(XPV, xpv_cur));
    SAY(PV_LEN, offsetof(XPV, xpv_len_u));
    SAY(AV_FILL, offsetof(XPVAV, xav_fill));
    SAY(AV_MAX, offsetof(XPVAV, xav_max));
    SAY(AV_ALLOC, offsetof(XPVAV, xav_alloc));
    SAY(HV_KEYS, offsetof(XPVHV, xhv_keys));
    SAY(HV_MAX, offsetof(XPVHV, xhv_max));
    SAY(CV_XSUBANY, offsetof(XPVCV, xcv_start_u));
    SAY(CV_ROOT, offsetof(XPVCV, xcv_root_u));
    SAY(CV_FILE, offsetof(XPVCV, xcv_file));
    SAY(CV_PADLIST, offsetof(XPVCV, xcv_padlist_u));
    SAY(CV_OUTSIDE, offsetof(XPVCV, xcv_outside));
    SAY(CV_FLAGS, offsetof(XPVCV, xcv_flags));
    SAY(CV_WEAK_OUTSIDE, CVf_WEAKOUTSIDE);
    SAY(CV_UNIQUE, CVf_UNIQUE);
    SAY(CV_GV_COUNTED, CVf_CVGV_RC);
    SAY(CV_DYNFILE, CVf_DYNFILE);
    SAY(MG_BYTES, sizeof(MAGIC));
    SAY(MG_TYPE, offsetof(MAGIC, mg_type));
    SAY(MG_FLAGS, offsetof(MAGIC, mg_flags));
    SAY(MG_LEN, offsetof(MAGIC, mg_len));
    SAY(MG_OBJ, offsetof(MAGIC, mg_obj));
    SAY(MG_PTR, offsetof(MAGIC, mg_ptr));
    SAY(MG_REFCOUNTED, MGf_REFCOUNTED);
    SAY(GP_BYTES, sizeof(GP));
    SAY(AUX_NAME, offsetof(struct xpvhv_aux, xhv_name_u));
    SAY(AUX_BACKREFERENCES, offsetof(struct xpvhv_aux, xhv_backreferences));
    SAY(AUX_NAME_COUNT, offsetof(struct xpvhv_aux, xhv_name_count));
    SAY(AUX_MRO_META, offsetof(struct xpvhv_aux, xhv_mro_meta));
    SAY(AUX_BYTES, sizeof(struct xpvhv_aux));
    SAY(PADLIST_BYTES, sizeof(PADLIST));
    SAY(PADNAME_BYTES, sizeof(PADNAME));
    SAY(PADNAME_LEN, offsetof(PADNAME, xpadn_len));
    SAY(PADNAME_FLAGS, offsetof(PADNAME, xpadn_flags));
    SAY(PADNAME_STR, offsetof(struct padname_with_str, xpadn_str));
    SAY(PADNAME_OUTER, 1);
    SAY(PADNAMELIST_BYTES, sizeof(PADNAMELIST));
}

/* Operators, slabs, the interpreter */
static void others(void)
{
    SAY(OP_SIBPARENT, offsetof(OP, op_sibparent));
    SAY(OP_BYTES, sizeof(OP));
    SAY(OP_FIRST, offsetof(UNOP, op_first));
    SAY(OP_KIDS, OPf_KIDS);
    SAY(COP_LINE, offsetof(COP, cop_line));
    SAY(OP_FLAGS, offsetof(OP, op_private)-1);
    SAY(SLAB_NEXT, offsetof(struct opslab, opslab_next));
    SAY(SLAB_HEAD, offsetof(struct opslab, opslab_head));
    SAY(SLAB_FREED, offsetof(struct opslab, opslab_freed));
    SAY(SLAB_SIZE, offsetof(struct opslab, opslab_size));
    SAY(SLAB_FREE_SPACE, offsetof(struct opslab, opslab_free_space));
    SAY(SLAB_BYTES, offsetof(struct opslab, opslab_slots));
    SAY(I_STRTAB, offsetof(struct interpreter, Istrtab));
    SAY(I_DEFSTASH, offsetof(struct interpreter, Idefstash));
    SAY(I_CURSTACKINFO, offsetof(struct interpreter, Icurstackinfo));
    SAY(I_ARENAROOT, offsetof(struct interpreter, Isv_arenaroot));
    SAY(B_REGEXP, sizeof(struct regexp));
    SAY(B_PVLV, sizeof(XPVLV));
    SAY(B_PVAV, sizeof(XPVAV));
    SAY(B_PVHV, sizeof(XPVHV));
    SAY(B_PVCV, sizeof(XPVCV));
    SAY(B_PVIO, sizeof(XPVIO));
    SAY(B_PVMG, sizeof(XPVMG));
    SAY(B_INVLIST, sizeof(XINVLIST));
    SAY(B_PVNV, sizeof(XPVNV));
    SAY(B_PV, sizeof(XPV));
    SAY(B_PVFM, sizeof(XPVFM));
    SAY(CONTEXT, sizeof(PERL_CONTEXT));
#if defined(PadnameIsFIELD)
    SAY(B_PVOBJ, sizeof(XPVOBJ));
    SAY(PVOBJ, SVt_PVOBJ);
#endif
    SAY(VERSION, PERL_VERSION);
}

int main(void)
{
    kinds();
    bodies();
    others();
    return 0;
}
