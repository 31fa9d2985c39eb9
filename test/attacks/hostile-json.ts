import { lineBytesMax } from '../../shared/batches/batch.ts';
import { ingressSettings } from '../../shared/process/settings.ts';
import { nested } from '../support/hostile-lines.ts';

/** The largest body that the service accepts by default. */
export const bodyBytesMax = ingressSettings.shape.BODY_BYTES_MAX.parse(undefined);
/** Slightly fewer than the objects, arrays and members that a body may have. */
const partsAllowed = 24_900;
const depthAllowed = 126;
const valuesAllowed = 1_900_000;

/** Nested arrays. */
export const deepArrays = (bytes: number) => nested(Math.floor(bytes / 2) - 1);
/** Adjacent arrays. */
export const wideArrays = (bytes: number) => `[${'[],'.repeat(Math.floor(bytes / 3) - 2)}[]]`;
export const members = (count: number, name = 'a') =>
  `{${Array.from({ length: count }, (_, index) => `"${name}${index}":0`).join()}}`;

/** As many containers as allowed, as deep as allowed, and numbers up to this size. */
export function allowedArrays(bytes: number): string {
  const columns = Array.from({ length: Math.floor(partsAllowed / depthAllowed) }, () => nested(depthAllowed)).join();
  return `[${columns}${',1'.repeat(Math.min(valuesAllowed, Math.floor((bytes - columns.length - 2) / 2)))}]`;
}

/** As many members as allowed, with names up to this size. */
export function allowedMembers(bytes: number): string {
  return members(partsAllowed, 'x'.repeat(Math.floor(bytes / partsAllowed) - 10));
}

/** Numbers, one of which is half as long as this size. */
export const longNumberAmong = (bytes: number) =>
  `[${'1,'.repeat(Math.floor(bytes / 4))}${'9'.repeat(Math.floor(bytes / 2) - 4)}]`;
/** As many values as allowed together with a long number. */
export const longNumberAmongFew = (bytes: number) => `[${'1,'.repeat(49_000)}${'9'.repeat(bytes - 100_000)}]`;

const messages = '"model":"small-chat","messages":[{"role":"user","content":"Hi"}]';

/** The bytes around the fields of `chatBody`. */
const aroundBytes = messages.length + 20;
export const fieldBytes = bodyBytesMax - aroundBytes;
/** The same in a line of a batch. */
export const lineFieldBytes = lineBytesMax - aroundBytes;

/** A request with this JSON as the value of an unknown field. */
export const chatBody = (value: string) => `{${messages},"x":${value}}`;
/** A request with all members of this object as its own fields. */
export const chatWithMembers = (object: string) => `{${messages},${object.slice(1)}`;
