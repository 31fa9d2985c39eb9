import { h } from 'preact';
import type { Key } from '../../routes/present-key.ts';
import { restOf, shownState } from '../keys/key-state.ts';
import { formatRest } from '../page/format.ts';

/** How many keys can be used, and which of them ends first. */
export function NextKey({ keys }: { keys: readonly Key[] }) {
  const now = Date.now();
  const usable = keys.filter((key) => ['active', 'in grace'].includes(shownState(key, now)));
  const [next] = usable
    .flatMap((key) => {
      const restMs = restOf(key, now);
      return restMs === undefined ? [] : [{ name: key.name, restMs }];
    })
    .toSorted((one, other) => one.restMs - other.restMs);
  return [
    h(
      'p',
      { class: 'headline' },
      h('strong', null, String(usable.length)),
      usable.length === 1 ? ' active key' : ' active keys',
    ),
    h(
      'p',
      { class: next !== undefined && next.restMs < warnedMs ? 'warning' : 'quiet' },
      next === undefined
        ? usable.length === 0
          ? 'No program can call the API as you.'
          : 'None of them expires.'
        : `"${next.name}" expires next, in ${formatRest(next.restMs)}.`,
    ),
  ];
}

const warnedMs = 7 * 86_400_000;
