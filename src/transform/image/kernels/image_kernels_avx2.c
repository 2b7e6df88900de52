#include "transform/image/kernels/color_avx2.h"
#include "transform/image/kernels/image_kernels.h"
#include "transform/image/kernels/resample/resample_avx2.h"
#include "transform/image/kernels/store_avx2.h"

void kernels_add_avx2(struct kernels *k)
{
    k->name = "avx2";
    k->rows = resample_rows_avx2;
    k->columns = resample_columns_avx2;
    k->planes_u8 = planes_u8_avx2;
    k->planes_f32 = planes_f32_avx2;
    k->planes_f16 = planes_f16_avx2;
    k->planes_bf16 = planes_bf16_avx2;
    k->pixels_f32 = pixels_f32_avx2;
    k->pixels_f16 = pixels_f16_avx2;
    k->pixels_bf16 = pixels_bf16_avx2;
    k->mirror = mirror_avx2;
    k->blend_constant = blend_constant_avx2;
    k->blend_gray = blend_gray_avx2;
    k->gray = gray_avx2;
    k->gray_sum = gray_sum_avx2;
    k->shift_hue = shift_hue_avx2;
}
