const minuteMs = 60_000;

/**
 * The largest sum of these amounts that were certainly taken within one minute: a gateway decides between the sending of a request and
 * the end of its answer, so both must be within it.
 */
export function worstMinute(taken: readonly { sentAt: number; endedAt: number; amount: number }[]): number {
  const sums = taken.map(({ sentAt: from }) =>
    taken
      .filter(({ sentAt, endedAt }) => sentAt >= from && endedAt <= from + minuteMs)
      .reduce((sum, { amount }) => sum + amount, 0),
  );
  return Math.max(0, ...sums);
}
