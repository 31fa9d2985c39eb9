type Page<Item, Shown> = {
  /** As many as were asked for, and one more if there is one. */
  found: readonly Item[];
  limit: number;
  present: (item: Item) => Shown;
};

/** OpenAI's list object: at most `limit` of what was found. */
export function presentList<Item, Shown extends { id: string }>({ found, limit, present }: Page<Item, Shown>) {
  const data = found.slice(0, limit).map(present);
  const [first_id, last_id] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
  return { object: 'list', data, first_id, last_id, has_more: found.length > limit };
}
