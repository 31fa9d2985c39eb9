import { h } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { formatAgo, formatSecond } from './format.ts';

const oftenMs = 1_000;
const seldomMs = 20_000;
/** Within this time, seconds are shown. */
const recentMs = 90_000;

/**
 * How long ago something was, as it grows; its exact time, to the second, is shown on hover. `at`: seconds since 1970, or ISO 8601 text.
 */
export function TimeAgo({ at }: { at: number | string }) {
  const time = typeof at === 'number' ? at * 1_000 : Date.parse(at);
  const [now, setNow] = useState(Date.now());
  const isRecent = now - time < recentMs;
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), isRecent ? oftenMs : seldomMs);
    return () => clearInterval(timer);
  }, [isRecent]);
  return h(
    'time',
    { dateTime: new Date(time).toISOString(), title: formatSecond(time / 1_000) },
    formatAgo(Math.max(0, now - time)),
  );
}
