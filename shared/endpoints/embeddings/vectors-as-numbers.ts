import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SizeBudget, Vector } from '../definition/answer-format.ts';

/** Converted in one turn of the event loop: about 5 ms. */
const numbersPerTurn = 16_384;
const bytesOfNumber = Float32Array.BYTES_PER_ELEMENT;
/** So many digits tell numbers of 32 bits apart. */
const digits = 9;
const quote = 0x22;

/**
 * Returns vectors in base64 (numbers in 32 bits, little-endian) as lists of numbers. A vector that is a list already, or no such text,
 * stays as it is. What they grow by is spent of the budget.
 */
export async function vectorsAsNumbers(vectors: readonly Vector[], budget: SizeBudget): Promise<readonly Vector[]> {
  let leftInTurn = numbersPerTurn;

  async function listOf(numbers: Buffer): Promise<Buffer[]> {
    const parts: Buffer[] = [];
    for (let at = 0; at < numbers.length; ) {
      const block = numbers.subarray(at, at + leftInTurn * bytesOfNumber);
      const part = Buffer.from(`${at === 0 ? '[' : ','}${textOf(block)}`);
      budget.spend(Math.max(0, part.length - block.length));
      parts.push(part);
      at += block.length;
      leftInTurn -= block.length / bytesOfNumber;
      if (leftInTurn > 0) continue;
      leftInTurn = numbersPerTurn;
      await nextTurn();
    }
    return [...parts, Buffer.from(']')];
  }

  const converted: Vector[] = [];
  for (const vector of vectors) {
    const numbers = numbersIn(vector);
    converted.push(numbers === undefined ? vector : await listOf(numbers));
  }
  return converted;
}

function numbersIn(parts: Vector): Buffer | undefined {
  if (parts[0]?.[0] !== quote) return undefined;
  const text = Buffer.concat(parts)
    .toString('latin1')
    .slice(1, -1)
    .replace(/={1,2}$/, '');
  const numbers = Buffer.from(text, 'base64');
  // What is no base64 is not decoded.
  const isWhole = numbers.length > 0 && numbers.length === Math.floor((text.length * 3) / 4);
  return isWhole && numbers.length % bytesOfNumber === 0 ? numbers : undefined;
}

function textOf(numbers: Buffer): string {
  const texts: string[] = [];
  for (let at = 0; at < numbers.length; at += bytesOfNumber) {
    const number = numbers.readFloatLE(at);
    texts.push(Number.isFinite(number) ? String(Number(number.toPrecision(digits))) : 'null');
  }
  return texts.join(',');
}
