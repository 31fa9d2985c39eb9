import { countedName } from './extra-fields.ts';
import { foldedName } from './folded-name.ts';
import { isLimitField } from './output-limit.ts';

/** Shorter names are near too many others. */
const nearLengthMin = 3;

/**
 * Whether no published description of the endpoint and no model server has this field, as far as this service knows, so that it can be
 * dropped. What is refused for a reason is known, also in other letters than those of its name, which some servers read.
 */
export function isUnknownField(field: string, published: ReadonlySet<string>): boolean {
  const name = foldedName(field);
  return !published.has(name) && countedName(name) === 'other' && !isLimitField(name) && !isLimitField(field);
}

/** Returns the known name that differs from this one by one letter. */
export function nearName(field: string, known: Iterable<string>): string | undefined {
  for (const name of known) if (name.length >= nearLengthMin && isOneLetterOff(field, name)) return name;
  return undefined;
}

/** Whether two names differ by one letter: one more, one less, another one, or two neighbours in the other order. */
export function isOneLetterOff(one: string, other: string): boolean {
  if (Math.abs(one.length - other.length) > 1 || one === other) return false;
  let same = 0;
  while (one[same] !== undefined && one[same] === other[same]) same++;
  const rest = (text: string, from: number) => text.slice(same + from);
  if (one.length !== other.length) {
    return one.length > other.length ? rest(one, 1) === rest(other, 0) : rest(one, 0) === rest(other, 1);
  }
  const isSwapped = one[same] === other[same + 1] && one[same + 1] === other[same];
  return rest(one, 1) === rest(other, 1) || (isSwapped && rest(one, 2) === rest(other, 2));
}
