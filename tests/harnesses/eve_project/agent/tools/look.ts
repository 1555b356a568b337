import { defineTool } from "eve/tools";
import { acts } from "../lib/shop";

export default defineTool(acts("look", "Do something that may be repeated."));
