// float16 and bfloat16 kept as 16 bits and computed in float: the same result with every compiler and CPU.
#pragma once
#include <cstdint>
#include <cstring>

namespace element {

inline std::uint32_t bits_of(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float float_of(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

struct float16 {
    std::uint16_t bits;

    float16() = default;
    explicit float16(float value) : bits(round(bits_of(value))) {}

    explicit operator float() const {
        const std::uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
        if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);  // inf, nan
        if (rest >= 0x0400u) return float_of(sign | ((rest << 13) + 0x38000000u));
        return float_of(sign | bits_of(float(rest) * 0x1p-24f));  // subnormal
    }

  private:
    // To nearest, ties to even.
    static std::uint16_t round(std::uint32_t value) {
        const std::uint32_t sign = value >> 16 & 0x8000u;
        value &= 0x7fffffffu;
        if (value > 0x7f800000u) return sign | 0x7e00u;   // nan
        if (value >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above is infinite
        if (value < 0x38800000u)                          // subnormal: the addition rounds
            return sign | (bits_of(float_of(value) + 0.5f) - 0x3f000000u);
        return sign | ((value - 0x38000000u + 0xfffu + (value >> 13 & 1u)) >> 13);
    }
};

struct bfloat16 {
    std::uint16_t bits;

    bfloat16() = default;
    explicit bfloat16(float value) : bits(round(bits_of(value))) {}
    explicit operator float() const { return float_of(std::uint32_t(bits) << 16); }

  private:
    static std::uint16_t round(std::uint32_t value) {
        if ((value & 0x7fffffffu) > 0x7f800000u) return value >> 16 | 0x40u;  // nan stays nan
        return (value + 0x7fffu + (value >> 16 & 1u)) >> 16;
    }
};

}  // namespace element
