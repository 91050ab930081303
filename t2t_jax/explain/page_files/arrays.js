// Arrays as they lie in the page: a shape, and numbers in base64, little-endian.

/** {shape, data} of {shape, float32} or {shape, float16}; null stays null. */
function unpack(packed) {
  if (packed === null) return null;
  const text = atob(packed.float32 || packed.float16 || "");
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  if (packed.float16 === undefined) return { shape: packed.shape, data: new Float32Array(bytes.buffer) };
  const data = new Float32Array(bytes.length / 2);
  for (let i = 0; i < data.length; i++) data[i] = half(bytes[2 * i] | (bytes[2 * i + 1] << 8));
  return { shape: packed.shape, data };
}

/** A number of 16 bits: sign, five bits of exponent, ten of fraction. */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The array at `place` of the first axis. */
function part(array, place) {
  const shape = array.shape.slice(1);
  const size = shape.reduce((a, b) => a * b, 1);
  return { shape, data: array.data.subarray(place * size, (place + 1) * size) };
}

/** A matrix [rows, columns] made number by number. */
function matrix(rows, columns, value) {
  const data = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) data[i * columns + j] = value(i, j);
  return { shape: [rows, columns], data };
}

/** Every packed array of a document, unpacked; all else as it is. */
function unpackAll(value) {
  if (Array.isArray(value)) return value.map(unpackAll);
  if (value === null || typeof value !== "object") return value;
  if (value.shape !== undefined && (value.float32 !== undefined || value.float16 !== undefined)) return unpack(value);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, unpackAll(each)]));
}
