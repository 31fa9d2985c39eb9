import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Vector } from '../definition/answer-format.ts';

/** Converted in one turn of the event loop: about 2 ms. */
const numbersPerTurn = 16_384;
const bytesOfNumber = Float32Array.BYTES_PER_ELEMENT;
const [comma, listOpen, listClose, letterN] = [0x2c, 0x5b, 0x5d, 0x6e];

/**
 * Returns the vectors as texts in base64 of their numbers in 32 bits, little-endian, as OpenAI's clients ask for them. A vector that is a
 * text already, or no plain list of numbers, stays as it is.
 */
export async function vectorsAsBase64(vectors: readonly Vector[]): Promise<Vector[]> {
  const converted: Vector[] = [];
  let leftInTurn = numbersPerTurn;

  async function convert(bytes: Buffer): Promise<Buffer> {
    const numbers = Buffer.alloc(countNumbers(bytes) * bytesOfNumber);
    let from = 1;
    for (let written = 0; written < numbers.length; written += bytesOfNumber) {
      const next = bytes.indexOf(comma, from);
      const end = next === -1 ? bytes.length - 1 : next;
      numbers.writeFloatLE(Number(bytes.toString('latin1', from, end)), written);
      from = end + 1;
      if (--leftInTurn > 0) continue;
      leftInTurn = numbersPerTurn;
      await nextTurn();
    }
    return Buffer.from(`"${numbers.toString('base64')}"`);
  }

  for (const parts of vectors) {
    const bytes = Buffer.concat(parts);
    converted.push([isPlainList(bytes) ? await convert(bytes) : bytes]);
  }
  return converted;
}

function isPlainList(bytes: Buffer): boolean {
  return bytes[0] === listOpen && bytes.indexOf(listClose) === bytes.length - 1 && !bytes.includes(letterN);
}

function countNumbers(bytes: Buffer): number {
  let commas = 0;
  for (let at = bytes.indexOf(comma); at !== -1; at = bytes.indexOf(comma, at + 1)) commas++;
  return commas > 0 || bytes.subarray(1, -1).toString('latin1').trim() !== '' ? commas + 1 : 0;
}
