/** Small line chart over time. */
interface PlotProps {
  label: string;
  values: number[];
  /** Number of values that fit. */
  capacity: number;
  show: (value: number) => string;
}

const WIDTH = 240;
const HEIGHT = 56;

export function Plot({ label, values, capacity, show }: PlotProps) {
  const top = Math.max(1, ...values);
  const now = values.at(-1) ?? 0;
  const x = (at: number) => ((capacity - values.length + at) / (capacity - 1)) * WIDTH;
  const y = (value: number) => HEIGHT - 2 - (value / top) * (HEIGHT - 6);
  const points = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  const area = `${x(0).toFixed(1)},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`;
  return (
    <figure class="plot">
      <figcaption>
        <span>{label}</span>
        <strong>{show(now)}</strong>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${label}: now ${show(now)}, maximum ${show(Math.max(0, ...values))}`}
      >
        <polygon points={area} />
        <polyline points={points.join(" ")} />
      </svg>
    </figure>
  );
}
